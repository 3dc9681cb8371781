() => {
  const count = text => (text.match(/\S*\p{L}\S*/gu) || []).length;
  const shown = html => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll("style, script").forEach(node => node.remove());
    page.querySelectorAll("td, th, p").forEach(node => node.append(" "));
    return page.body.textContent;
  };
  const said = ({ data, text }) => {
    if (!data) return [text || ""].flat().join("");
    if (Object.keys(data).some(kind => /vega|widget/.test(kind))) return "";
    return data["text/html"] ? shown([data["text/html"]].flat().join(""))
                             : [data["text/plain"] || ""].flat().join("");
  };
  return window.jupyterapp.shell.currentWidget.content.widgets
    .map(widget => widget.model.toJSON())
    .flatMap(({ source, outputs }) => [[source].flat().join(""), ...(outputs || []).map(said)])
    .map(count).reduce((all, one) => all + one, 0);
}
