// Quality against latency: one line per system, offline rows as dashed lines, oracles in grey.
const CROSS = "M-3.6,-3.6L3.6,3.6M3.6,-3.6L-3.6,3.6";
const FEW = 5; // most curves whose bands are drawn without being asked for
const hiddenSystems = new Set();
const chart = { set: 0, quality: null, latency: null, mode: "ideal", intervals: true, limits: null, limitsOf: "" };

const seriesColor = (row) => (row.kind === "system" ? `var(--series-${row.style[0]})` : "var(--grey)");
const systemOf = (ceiling) => data.rows.find((row) => row.kind === "system" && row.set === ceiling.set && `${row.system} `.startsWith(ceiling.system.replace(/offline$/, "")));
const ceilingColor = (row) => (systemOf(row) ? seriesColor(systemOf(row)) : "var(--grey)");
const seriesShape = (row) => (row.kind === "system" ? data.shapes[row.style[1]] : CROSS);
const seriesClass = (row) => (row.kind === "system" ? (row.segmented ? "series segmented" : "series") : "series oracle");
const intervalOf = (row, score) => (chart.intervals && row.intervals[score]) || null;
const latencyName = () => chart.latency + (chart.mode === "aware" ? "_CA" : "");
const shownScore = (name, value) => fixed(value, data.digits[name]);

function chartSeries() {
  const groups = new Map();
  data.rows.forEach((row, index) => {
    if (row.set !== chart.set || row.kind === "ceiling" || !isShown(row)) return;
    const key = `${row.kind}/${row.system}`;
    if (!groups.has(key)) groups.set(key, { key, row, points: [] });
    const x = row.scores[latencyName()];
    const y = row.scores[chart.quality];
    if (x !== null && x !== undefined && y !== null && y !== undefined) groups.get(key).points.push({ row, index, x, y });
  });
  for (const group of groups.values()) group.points.sort((a, b) => a.row.order - b.row.order);
  const rank = ({ row }) => ["series", "series segmented", "series oracle"].indexOf(seriesClass(row));
  return [...groups.values()].sort((a, b) => rank(a) - rank(b));
}

function chartCeilings() {
  return data.rows.filter((row) => row.set === chart.set && row.kind === "ceiling" && isShown(row) && row.scores[chart.quality] != null);
}

// Draws the chart with other limits: null (without far outliers), "all", or { x: [from, to], y: [from, to] }.
function limitChart(limits) {
  chart.limits = limits;
  drawChart();
}

// The limits of both axes. Those that the reader has chosen are for one test set and its scores.
function chartLimits(points, ceilings) {
  const scores = `${chart.set} ${chart.quality} ${latencyName()}`;
  if (chart.limitsOf !== scores) Object.assign(chart, { limits: null, limitsOf: scores });
  if (chart.limits && chart.limits !== "all") return [...chart.limits.x, ...chart.limits.y];
  const everything = chart.limits === "all";
  const near = (score, value) => (isNear) => points.flatMap((point) => (isNear(value(point)) && intervalOf(point.row, score)) || []);
  const [left, right] = chartRange(points.map((p) => p.x), 0.25, everything, near(latencyName(), (p) => p.x));
  // A row outside for its latency has no say in the limits of the quality.
  const heights = [...points.filter((p) => p.x >= left && p.x <= right).map((p) => p.y), ...ceilings.map((row) => row.scores[chart.quality])];
  return [
    left,
    right,
    ...chartRange(heights, Math.max(...heights) > 1 ? 2 : 0.02, everything, near(chart.quality, (p) => p.y)),
  ];
}

function drawChart() {
  const holder = byId("chart");
  const all = chartSeries();
  const series = all.filter((group) => !hiddenSystems.has(group.key));
  const ceilings = chartCeilings();
  const points = series.flatMap((group) => group.points);
  holder.replaceChildren();
  drawLegend(all, ceilings);
  const missing = data.rows.filter((row) => row.set === chart.set && row.kind !== "ceiling" && isShown(row)).length - all.flatMap((g) => g.points).length;
  const note = { missing: missing ? `${missing} row(s) without ${chart.quality} or ${latencyName()} are not drawn.` : "", outside: [], chosen: false, choose: limitChart };
  byId("chart-set").textContent = data.sets.length > 1 ? data.sets[chart.set] : "";
  if (!points.length) {
    noteOutside(byId("chart-note"), note);
    build(holder, "p", { class: "empty" }, "Nothing to draw: no row has both scores.");
    return;
  }
  const width = Math.max(280, holder.clientWidth);
  const height = width < 600 ? 320 : 420;
  const box = { left: 46, right: width - (width < 600 ? 34 : 16), top: 26, bottom: height - 44 };
  const [x0, x1, y0, y1] = chartLimits(points, ceilings);
  const x = (value) => box.left + ((value - x0) / (x1 - x0)) * (box.right - box.left);
  const y = (value) => box.bottom - ((value - y0) / (y1 - y0)) * (box.bottom - box.top);
  const isInside = (point) => point.x >= x0 && point.x <= x1 && point.y >= y0 && point.y <= y1;
  const lineOf = (row) => row.scores[chart.quality];
  const drawn = ceilings.filter((row) => lineOf(row) >= y0 && lineOf(row) <= y1);
  note.outside = [
    ...points.filter((point) => !isInside(point)).map(({ row, ...point }) => `${rowName(row)} (${shownScore(latencyName(), point.x)} s, ${shownScore(chart.quality, point.y)})`),
    ...ceilings.filter((row) => !drawn.includes(row)).map((row) => `${rowName(row)} (${shownScore(chart.quality, lineOf(row))})`),
  ];
  noteOutside(byId("chart-note"), { ...note, chosen: chart.limits !== null });
  const svg = build(holder, "svg:svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${chart.quality} against ${latencyName()}` });
  drawAxes(svg, box, { x, y, x0, x1, y0, y1, width });
  for (const row of drawn) drawCeiling(svg, box, y(lineOf(row)), row);
  // An inner svg cuts lines and bands at the axes.
  const [across, up] = [box.right - box.left, box.bottom - box.top];
  const plot = build(svg, "svg:svg", { x: box.left, y: box.top, width: across, height: up, viewBox: `${box.left} ${box.top} ${across} ${up}` });
  for (const group of series) drawBand(plot, group, x, y);
  for (const group of series) if (group.points.length) drawLine(plot, group, x, y);
  const labels = series.flatMap((group) => drawPoints(svg, { ...group, points: group.points.filter(isInside) }, x, y));
  const frame = { left: box.left, right: width, top: 18, bottom: box.bottom };
  const taken = points.filter(isInside).map((point) => markerBox(x(point.x), y(point.y)));
  labels.sort((a, b) => b.atEnd - a.atEnd); // where not all labels fit, the ends of the curves have theirs
  for (const { text, point } of labels) placeLabel(text, x(point.x), y(point.y), AROUND, frame, taken);
  listenToZoom(svg, box, { x0, x1, y0, y1 }, limitChart);
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

// An offline row has no latency: a line in the colour of its system. Labels of near lines would cover each other, so
// the legend has them.
function drawCeiling(svg, box, y, row) {
  const layer = build(svg, "svg:g", { style: `--color:${ceilingColor(row)}` });
  build(layer, "svg:line", { class: "ceiling", x1: box.left, x2: box.right, y1: y, y2: y });
  const target = build(layer, "svg:line", { class: "ceiling-target", x1: box.left, x2: box.right, y1: y, y2: y });
  target.addEventListener("pointermove", (event) => showTip(pointLines(row), event.clientX, event.clientY));
  target.addEventListener("pointerleave", hideTip);
}

// The interval of the quality as a band along the curve, or as a bar at a single point; latency as bars.
function drawBand(svg, group, x, y) {
  const layer = build(svg, "svg:g", { style: `--color:${seriesColor(group.row)}` });
  const known = group.points.filter(({ row }) => intervalOf(row, chart.quality));
  const corner = (point, side) => `${x(point.x)},${y(intervalOf(point.row, chart.quality)[side])}`;
  if (known.length > 1) {
    const outline = [...known.map((point) => corner(point, 1)), ...known.reverse().map((point) => corner(point, 0))];
    build(layer, "svg:path", { class: "band-95", d: `M${outline.join("L")}z` });
  }
  for (const point of group.points) {
    const [high, wide] = [chart.quality, latencyName()].map((score) => intervalOf(point.row, score));
    if (high && known.length === 1) build(layer, "svg:path", { class: "bar-95", d: `M${x(point.x)},${y(high[0])}V${y(high[1])}` });
    if (wide) build(layer, "svg:path", { class: "bar-95", d: `M${x(wide[0])},${y(point.y)}H${x(wide[1])}` });
  }
}

const seriesLayer = (svg, { row }) => build(svg, "svg:g", { style: `--color:${seriesColor(row)}`, class: seriesClass(row) });

function drawLine(svg, group, x, y) {
  build(seriesLayer(svg, group), "svg:path", { class: "line", d: "M" + group.points.map((p) => `${x(p.x)},${y(p.y)}`).join("L") });
}

// Draws the points of a curve, above all lines, and returns their labels, which have no place yet.
function drawPoints(svg, group, x, y) {
  const layer = seriesLayer(svg, group);
  return group.points.map((point, place) => {
    const text = drawPoint(layer, point, x(point.x), y(point.y));
    return { text, point, atEnd: place === 0 || place === group.points.length - 1 };
  });
}

function drawPoint(layer, point, x, y) {
  const { row } = point;
  const lines = pointLines(row);
  const mark = build(layer, "svg:g", { class: row.flags.length ? "point flagged" : "point", transform: `translate(${x},${y})`, tabindex: 0, role: "img", "aria-label": lines.join(", ") });
  build(mark, "svg:circle", { r: 13, class: "target" });
  build(mark, "svg:path", { d: seriesShape(row), class: "shape" });
  const text = build(mark, "svg:text", {}, knobText(row) + (row.flags.length ? " !" : ""));
  const box = () => mark.getBoundingClientRect();
  mark.addEventListener("pointermove", (event) => showTip(lines, event.clientX, event.clientY));
  mark.addEventListener("pointerleave", hideTip);
  mark.addEventListener("focus", () => showTip(lines, box().left, box().bottom));
  mark.addEventListener("blur", hideTip);
  return text;
}

// Only the value of the knob is drawn, a long name would cover other labels; the tip shows both.
function knobText(row) {
  const [name] = row.knob.split("=");
  return name.length > 2 ? row.knob.slice(name.length + 1) : row.knob;
}

function pointLines(row) {
  const scores = Object.entries(row.scores).filter(([, value]) => value !== null);
  const bounds = (name) => (row.intervals[name] ? ` (${row.intervals[name].map((value) => shownScore(name, value)).join(" to ")})` : "");
  const lines = scores.map(([name, value]) => `${name}  ${shownScore(name, value)}${bounds(name)}`);
  return [rowName(row), ...(row.sharers.length ? [`also of ${row.sharers.join(", ")}`] : []), ...(row.segmented ? ["receives the reference segments"] : []), ...lines, ...row.flags.map((flag) => `Flagged: ${flag}`)];
}

function drawLegend(groups, ceilings) {
  const legend = byId("legend");
  const focused = document.activeElement && document.activeElement.dataset.key;
  legend.replaceChildren();
  for (const { key, row } of groups) {
    const shown = !hiddenSystems.has(key);
    const button = build(legend, "button", { type: "button", "aria-pressed": shown, "data-key": key, style: `--color:${seriesColor(row)}` });
    const swatch = build(button, "svg:svg", { width: 30, height: 12, viewBox: "-15 -6 30 12", class: seriesClass(row), "aria-hidden": "true" });
    build(swatch, "svg:path", { d: "M-15,0H15", class: "line" });
    build(swatch, "svg:path", { d: seriesShape(row), class: "shape" });
    build(button, "span", {}, row.knob ? `${row.system}, by ${row.knob.split("=")[0]}` : row.system);
    button.addEventListener("click", () => {
      if (shown) hiddenSystems.add(key);
      else hiddenSystems.delete(key);
      drawChart();
    });
    if (focused === key) button.focus();
  }
  for (const row of ceilings) {
    const entry = build(legend, "span", { class: "offline", style: `--color:${ceilingColor(row)}` });
    const swatch = build(entry, "svg:svg", { width: 30, height: 12, viewBox: "-15 -6 30 12", "aria-hidden": "true" });
    build(swatch, "svg:line", { class: "ceiling", x1: -15, x2: 15, y1: 0, y2: 0 });
    entry.append(`${row.system}${row.sharers.length ? ` (also of ${row.sharers.join(", ")})` : ""} ${shownScore(chart.quality, row.scores[chart.quality])}`);
  }
  if (groups.some(({ row }) => row.segmented)) build(legend, "span", {}, "dashed: receives the reference segments");
  if (groups.some(({ points }) => points.some(({ row }) => row.flags.length))) build(legend, "span", {}, "hollow, ! : flagged row");
}

// If the filters hide all rows of the chosen test set, the chart shows the first test set with rows.
function showFilteredChart() {
  const rows = data.rows.filter(isShown);
  if (rows.length && !rows.some((row) => row.set === chart.set)) chart.set = rows[0].set;
  byId("set").value = String(chart.set);
  drawChart();
}

function setUpChart() {
  if (!data.axes.quality.length && data.rows.length) {
    byId("curves").remove();
    document.querySelector('nav a[href="#curves"]').remove();
    return;
  }
  options(byId("set"), data.sets.map((label, index) => [index, label]));
  byId("set-label").hidden = data.sets.length < 2;
  // Talks without references have no quality, so there is nothing to draw.
  for (const part of [byId("curves"), document.querySelector('nav a[href="#curves"]')]) part.hidden = !data.axes.quality.length;
  options(byId("quality"), data.axes.quality.map((name) => [name, name]));
  options(byId("latency"), data.axes.latency.map((name) => [name, name]));
  chart.quality = byId("quality").value;
  chart.latency = byId("latency").value;
  byId("set").addEventListener("change", (event) => { chart.set = Number(event.target.value); drawChart(); });
  byId("quality").addEventListener("change", (event) => { chart.quality = event.target.value; drawChart(); });
  byId("latency").addEventListener("change", (event) => { chart.latency = event.target.value; drawChart(); });
  byId("intervals-label").hidden = !data.rows.some((row) => Object.keys(row.intervals).length);
  chart.intervals = chartSeries().filter(({ row }) => row.kind === "system").length <= FEW; // bands of many curves hide each other
  byId("intervals").checked = chart.intervals;
  byId("intervals").addEventListener("change", (event) => { chart.intervals = event.target.checked; drawChart(); });
  onFilter(showFilteredChart);
  radios("mode", (value) => { chart.mode = value; drawChart(); });
  drawChart();
  onWidth(byId("chart"), drawChart);
}
