// Quality against latency: one line per system, the upper bound as a dashed line, oracles in grey.
const SHAPES = [
  "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
  "M-4.2,-4.2h8.4v8.4h-8.4z",
  "M0,-5.6L5.6,0L0,5.6L-5.6,0z",
  "M0,-5.4L5,4.2H-5z",
  "M0,5.4L5,-4.2H-5z",
];
const CROSS = "M-3.6,-3.6L3.6,3.6M3.6,-3.6L-3.6,3.6";
const hiddenSystems = new Set();
const chart = { set: 0, quality: null, latency: null, mode: "ideal" };
const systemNames = [...new Set(data.rows.filter((row) => row.kind === "system").map((row) => row.system))].sort();

const seriesColor = (row) => (row.kind === "system" ? `var(--series-${systemNames.indexOf(row.system) % 8})` : "var(--grey)");
const latencyName = () => chart.latency + (chart.mode === "aware" ? "_CA" : "");

function chartSeries() {
  const groups = new Map();
  data.rows.forEach((row, index) => {
    if (row.set !== chart.set || row.kind === "ceiling") return;
    const key = `${row.kind}/${row.system}`;
    if (!groups.has(key)) groups.set(key, { key, row, points: [] });
    const x = row.scores[latencyName()];
    const y = row.scores[chart.quality];
    if (x !== null && x !== undefined && y !== null && y !== undefined) groups.get(key).points.push({ row, index, x, y });
  });
  for (const group of groups.values()) group.points.sort((a, b) => a.row.order - b.row.order);
  return [...groups.values()];
}

function chartCeilings() {
  return data.rows.filter((row) => row.set === chart.set && row.kind === "ceiling" && row.scores[chart.quality] != null);
}

function chartRange(values, floor) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const room = Math.max((high - low) * 0.12, floor);
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

function drawChart() {
  const holder = byId("chart");
  const all = chartSeries();
  const series = all.filter((group) => !hiddenSystems.has(group.key));
  const ceilings = chartCeilings();
  const points = series.flatMap((group) => group.points);
  holder.replaceChildren();
  drawLegend(all, ceilings);
  const missing = data.rows.filter((row) => row.set === chart.set && row.kind !== "ceiling").length - all.flatMap((g) => g.points).length;
  byId("chart-note").textContent = missing ? `${missing} row(s) without ${chart.quality} or ${latencyName()} are not drawn.` : "";
  if (!points.length) {
    build(holder, "p", { class: "empty" }, "Nothing to draw: no row has both scores.");
    return;
  }
  const width = Math.max(280, holder.clientWidth);
  const height = width < 600 ? 320 : 420;
  const box = { left: 46, right: width - (width < 600 ? 34 : 16), top: 26, bottom: height - 44 };
  const [x0, x1] = chartRange(points.map((p) => p.x), 0.25);
  const [y0, y1] = chartRange([...points.map((p) => p.y), ...ceilings.map((row) => row.scores[chart.quality])], 2);
  const x = (value) => box.left + ((value - x0) / (x1 - x0)) * (box.right - box.left);
  const y = (value) => box.bottom - ((value - y0) / (y1 - y0)) * (box.bottom - box.top);
  const svg = build(holder, "svg:svg", { width, height, role: "group", "aria-label": `${chart.quality} against ${latencyName()}` });
  drawAxes(svg, box, { x, y, x0, x1, y0, y1, width });
  for (const row of ceilings) drawCeiling(svg, box, y(row.scores[chart.quality]), row);
  for (const group of series) drawSeries(svg, group, x, y);
}

function drawAxes(svg, box, { x, y, x0, x1, y0, y1, width }) {
  const across = ticks(x0, x1, width < 600 ? 4 : 8);
  for (const mark of across.marks) {
    build(svg, "svg:line", { class: "grid", x1: x(mark), x2: x(mark), y1: box.top, y2: box.bottom });
    build(svg, "svg:text", { class: "tick", x: x(mark), y: box.bottom + 18, "text-anchor": "middle" }, mark.toFixed(across.digits));
  }
  const up = ticks(y0, y1, 6);
  for (const mark of up.marks) {
    build(svg, "svg:line", { class: "grid", x1: box.left, x2: box.right, y1: y(mark), y2: y(mark) });
    build(svg, "svg:text", { class: "tick", x: box.left - 8, y: y(mark) + 4, "text-anchor": "end" }, mark.toFixed(up.digits));
  }
  build(svg, "svg:line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  build(svg, "svg:text", { class: "name", x: box.left - 8, y: 14, "text-anchor": "start" }, `↑ ${chart.quality}`);
  build(svg, "svg:text", { class: "name", x: box.right, y: box.bottom + 38, "text-anchor": "end" }, `${latencyName()}, seconds →`);
}

function drawCeiling(svg, box, y, row) {
  build(svg, "svg:line", { class: "ceiling", x1: box.left, x2: box.right, y1: y, y2: y });
  const text = `upper bound (${row.system}) ${fixed(row.scores[chart.quality], 1)}`;
  build(svg, "svg:text", { class: "tick halo", x: box.left + 6, y: y - 6 }, text);
}

function drawSeries(svg, group, x, y) {
  const oracle = group.row.kind === "oracle";
  const layer = build(svg, "svg:g", { style: `--color:${seriesColor(group.row)}`, class: oracle ? "series oracle" : "series" });
  build(layer, "svg:path", { class: "line", d: "M" + group.points.map((p) => `${x(p.x)},${y(p.y)}`).join("L") });
  for (const point of group.points) drawPoint(layer, point, x(point.x), y(point.y), oracle);
  const edge = Number(svg.getAttribute("width"));
  for (const label of layer.querySelectorAll("text")) {
    const over = label.getBoundingClientRect().right - svg.getBoundingClientRect().left > edge;
    if (over) Object.entries({ x: -8, "text-anchor": "end" }).forEach(([key, value]) => label.setAttribute(key, value));
  }
}

function drawPoint(layer, point, x, y, oracle) {
  const { row } = point;
  const lines = pointLines(row);
  const mark = build(layer, "svg:g", { class: row.flags.length ? "point flagged" : "point", transform: `translate(${x},${y})`, tabindex: 0, role: "img", "aria-label": lines.join(", ") });
  build(mark, "svg:circle", { r: 13, class: "target" });
  build(mark, "svg:path", { d: oracle ? CROSS : SHAPES[systemNames.indexOf(row.system) % SHAPES.length], class: "shape" });
  build(mark, "svg:text", { x: 8, y: 17 }, knobText(row) + (row.flags.length ? " !" : ""));
  const box = () => mark.getBoundingClientRect();
  mark.addEventListener("pointermove", (event) => showTip(lines, event.clientX, event.clientY));
  mark.addEventListener("pointerleave", hideTip);
  mark.addEventListener("focus", () => showTip(lines, box().left, box().bottom));
  mark.addEventListener("blur", hideTip);
}

// Only the value of the knob is drawn, a long name would cover other labels; the tip shows both.
function knobText(row) {
  const [name] = row.knob.split("=");
  return name.length > 2 ? row.knob.slice(name.length + 1) : row.knob;
}

function pointLines(row) {
  const scores = Object.entries(row.scores).filter(([, value]) => value !== null);
  const digits = (name) => (data.axes.quality.includes(name) ? 1 : 2);
  return [rowName(row), ...scores.map(([name, value]) => `${name}  ${fixed(value, digits(name))}`), ...row.flags.map((flag) => `Flagged: ${flag}`)];
}

function drawLegend(groups, ceilings) {
  const legend = byId("legend");
  const focused = document.activeElement && document.activeElement.dataset.key;
  legend.replaceChildren();
  for (const { key, row } of groups) {
    const shown = !hiddenSystems.has(key);
    const button = build(legend, "button", { type: "button", "aria-pressed": shown, "data-key": key, style: `--color:${seriesColor(row)}` });
    const swatch = build(button, "svg:svg", { width: 22, height: 12, viewBox: "-11 -6 22 12", "aria-hidden": "true" });
    build(swatch, "svg:path", { d: "M-11,0H11", class: "line" });
    build(swatch, "svg:path", { d: row.kind === "oracle" ? CROSS : SHAPES[systemNames.indexOf(row.system) % SHAPES.length], class: "shape" });
    build(button, "span", {}, row.knob ? `${row.system}, by ${row.knob.split("=")[0]}` : row.system);
    button.addEventListener("click", () => {
      if (shown) hiddenSystems.add(key);
      else hiddenSystems.delete(key);
      drawChart();
    });
    if (focused === key) button.focus();
  }
  if (data.rows.some((row) => row.set === chart.set && row.flags.length)) build(legend, "span", {}, "hollow, ! : flagged row");
}

function setUpChart() {
  options(byId("set"), data.sets.map((label, index) => [index, label]));
  byId("set-label").hidden = data.sets.length < 2;
  options(byId("quality"), data.axes.quality.map((name) => [name, name]));
  options(byId("latency"), data.axes.latency.map((name) => [name, name]));
  chart.quality = byId("quality").value;
  chart.latency = byId("latency").value;
  byId("set").addEventListener("change", (event) => { chart.set = Number(event.target.value); drawChart(); });
  byId("quality").addEventListener("change", (event) => { chart.quality = event.target.value; drawChart(); });
  byId("latency").addEventListener("change", (event) => { chart.latency = event.target.value; drawChart(); });
  radios("mode", (value) => { chart.mode = value; drawChart(); });
  drawChart();
  onWidth(byId("chart"), drawChart);
}
