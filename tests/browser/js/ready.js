() => {
  const panel = window.jupyterapp?.shell?.currentWidget;
  return panel?.sessionContext?.session?.kernel?.status === "idle";
}
