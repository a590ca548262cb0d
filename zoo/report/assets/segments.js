// The segments of a talk: source, reference and re-segmented hypothesis; words turn solid as they are emitted.
const HEADINGS = ["#", "time", "source", "reference", "hypothesis", "lag"];
const segmentTable = { spans: [], order: [], shown: 0 };

function drawSegments(view) {
  const table = byId("segments");
  table.replaceChildren();
  segmentTable.spans = [];
  const head = build(build(table, "thead"), "tr");
  for (const name of HEADINGS) build(head, "th", { scope: "col" }, name);
  const body = build(table, "tbody");
  let unit = 0;
  view.segments.forEach(([offset, duration, source], index) => {
    const row = build(body, "tr");
    const count = view.counts ? view.counts[index] : 0;
    build(row, "td", { class: "number", "data-label": "segment" }, `${index + 1}`);
    const time = build(row, "td", { class: "number" });
    const jump = build(time, "button", { type: "button", class: "plain", "aria-label": `Go to segment ${index + 1}, ${minutes(offset)}` }, minutes(offset));
    jump.addEventListener("click", () => seek(offset + 0.001));
    build(time, "small", {}, ` ${fixed(duration, 1)} s`);
    build(row, "td", { "data-label": "source", lang: view.language, dir: "auto" }, source);
    build(row, "td", { "data-label": "reference", lang: view.target, dir: "auto" }, view.references[index]);
    const cell = build(row, "td", { "data-label": "hypothesis", lang: view.target, dir: "auto" });
    if (view.counts) drawUnits(cell, view, unit, count);
    else cell.textContent = view.hypotheses[index];
    const lags = view.lags.slice(unit, unit + count).filter((lag) => lag !== null);
    const mean = lags.length ? lags.reduce((sum, lag) => sum + lag, 0) / lags.length : null;
    build(row, "td", { class: "number", "data-label": "mean lag" }, mean === null ? "–" : seconds(mean));
    unit += count;
  });
  segmentTable.order = segmentTable.spans.filter(Boolean).sort((a, b) => a.time - b.time);
  segmentTable.shown = segmentTable.order.length;
}

function drawUnits(cell, view, first, count) {
  if (!count) build(cell, "em", {}, "nothing");
  for (let unit = first; unit < first + count; unit += 1) {
    const node = build(cell, "span", { class: `unit ${lagClass(view.lags[unit])}` }, view.units[unit].trimEnd());
    cell.append(view.separator || (view.units[unit].endsWith(" ") ? " " : ""));
    node.addEventListener("click", () => seek(view.times[unit]));
    tipFor(node, () => unitLines(view, unit));
    segmentTable.spans[unit] = { node, time: view.times[unit] };
  }
}

function moveSegments(time) {
  const { order } = segmentTable;
  let count = order.length;
  if (clock.started) {
    let [low, high] = [0, order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (order[middle].time <= time + 0.001) low = middle + 1;
      else high = middle;
    }
    count = low;
  }
  const [from, to] = [Math.min(count, segmentTable.shown), Math.max(count, segmentTable.shown)];
  for (let place = from; place < to; place += 1) order[place].node.classList.toggle("future", place >= count);
  segmentTable.shown = count;
}
