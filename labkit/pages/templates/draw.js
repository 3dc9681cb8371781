for (const place of document.querySelectorAll(".labkit-chart")) {
  const drawn = place.querySelector(".drawn");
  const spec = JSON.parse(place.querySelector("script").textContent);
  const actions = { export: true, source: false, compiled: false, editor: false };
  const live = document.createElement("div");
  place.append(live);
  vegaEmbed(live, spec, { renderer: "svg", actions }).then(
    () => { drawn.remove(); place.dataset.live = "yes"; },
    (wrong) => { live.remove(); console.error(wrong); });
}
