// Lag of every target word over the whole talk; a click or a drag moves the clock and the timeline.
function drawOverview(view, go) {
  const holder = byId("overview");
  holder.replaceChildren();
  const heading = holder.previousElementSibling;
  heading.hidden = !view.references.some(Boolean); // lags need references
  if (heading.hidden) return; // the holder stays: its width is observed
  const lags = view.lags.filter((lag) => lag !== null).sort((a, b) => a - b);
  if (!lags.length) {
    const reason = "the re-segmented hypotheses differ from the emitted words";
    build(holder, "p", { class: "empty" }, view.units.length ? `The lag is undefined: ${reason}.` : "Nothing was emitted.");
    return;
  }
  const most = Math.max(3, lags[Math.floor(lags.length * 0.99)]) * 1.05;
  const plot = drawLagAxes(holder, view, Math.min(0, lags[Math.floor(lags.length * 0.01)]), most);
  const { svg, x, y, box } = plot;
  const dots = new Map(); // by class; of the words that fall on one pixel, which long talks have, one is drawn
  view.lags.forEach((lag, unit) => {
    if (lag === null) return;
    const name = lagClass(lag);
    if (!dots.has(name)) dots.set(name, new Map());
    const [across, down] = [x(view.times[unit]), y(lag)];
    const pixel = Math.round(across) * 1000 + Math.round(down);
    if (!dots.get(name).has(pixel)) dots.get(name).set(pixel, `M${across.toFixed(1)},${down.toFixed(1)}h.01`);
  });
  for (const [name, places] of dots) build(svg, "svg:path", { class: `dots ${name}`, d: [...places.values()].join("") });
  view.overview = {
    x,
    frame: build(svg, "svg:rect", { class: "frame", y: 2, height: box.bottom - 2, rx: 3 }),
    head: build(svg, "svg:line", { class: "head", y1: 2, y2: box.bottom }),
  };
  const move = (event) => go(plot.timeAt(event));
  svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); move(event); });
  svg.addEventListener("pointermove", (event) => event.buttons && move(event));
}

function moveOverview(view, from, to, time) {
  if (!view.overview) return;
  const { x, frame, head } = view.overview;
  frame.setAttribute("x", x(from));
  frame.setAttribute("width", Math.max(3, x(to) - x(from)));
  head.setAttribute("transform", `translate(${x(time)},0)`);
}

// Axes of seconds over the time of a talk; values outside of `least` to `most` are drawn at the edge.
function drawLagAxes(holder, view, least, most) {
  const width = Math.max(280, holder.clientWidth);
  const height = 96;
  const box = { left: 30, right: width - 8, top: 8, bottom: height - 18 };
  const x = (time) => box.left + (clamp(time, 0, view.duration) / view.duration) * (box.right - box.left);
  const y = (lag) => box.bottom - ((clamp(lag, least, most) - least) / (most - least)) * (box.bottom - box.top);
  const svg = build(holder, "svg:svg", { width, height, "aria-hidden": "true" });
  for (const mark of ticks(least, most, 3).marks) {
    build(svg, "svg:line", { class: "grid", x1: box.left, x2: box.right, y1: y(mark), y2: y(mark) });
    build(svg, "svg:text", { class: "tick", x: box.left - 5, y: y(mark) + 4, "text-anchor": "end" }, `${mark}`);
  }
  for (const mark of ticks(0, view.duration / 60, width / 90).marks) {
    build(svg, "svg:text", { class: "tick", x: x(mark * 60), y: height - 3, "text-anchor": mark ? "middle" : "start" }, minutes(mark * 60));
  }
  const timeAt = (event) => clamp((event.clientX - svg.getBoundingClientRect().left - box.left) / (box.right - box.left), 0, 1) * view.duration;
  return { svg, x, y, box, timeAt };
}
