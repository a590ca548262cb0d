// How far target speech is behind its source, sentence by sentence; a click moves the clock and the timeline.
function drawBehind(view, go) {
  const holder = byId("behind");
  holder.replaceChildren();
  const points = view.behind.map(([end, ideal, aware]) => [end, view.isAware ? aware : ideal]).filter(([, lag]) => lag !== null);
  holder.previousElementSibling.hidden = !points.length;
  if (!points.length) return; // the holder stays: its width is observed
  const lags = points.map(([, lag]) => lag);
  const plot = drawLagAxes(holder, view, Math.min(0, ...lags), Math.max(3, ...lags) * 1.05);
  const { svg, x, y } = plot;
  build(svg, "svg:path", { class: "behind", d: points.map(([end, lag], place) => `${place ? "L" : "M"}${x(end).toFixed(1)},${y(lag).toFixed(1)}`).join("") });
  svg.addEventListener("pointermove", (event) => {
    const time = plot.timeAt(event);
    const near = points.reduce((best, point) => (Math.abs(point[0] - time) < Math.abs(best[0] - time) ? point : best));
    showTip([`${seconds(near[1])} behind`, `source until ${seconds(near[0])}, its translation played until ${seconds(near[0] + near[1])}`], event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", hideTip);
  svg.addEventListener("click", (event) => go(plot.timeAt(event)));
}
