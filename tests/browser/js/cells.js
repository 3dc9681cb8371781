// What the page knows of the notebook: cells that ran, cells that failed, cells in all.
() => {
  const cells = window.jupyterapp.shell.currentWidget.content.widgets
    .map(widget => widget.model).filter(model => model.type === "code");
  const failed = cells.flatMap(model => model.toJSON().outputs)
    .filter(output => output.output_type === "error").map(output => output.evalue);
  return { ran: cells.filter(model => model.executionCount).length, all: cells.length, failed };
}
