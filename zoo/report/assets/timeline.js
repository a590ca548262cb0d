// The timeline: source words above, target words below at their emission times, target speech between them.
// Only elements near the visible window are in the document.
const LANE = 22;
const TOP = 40; // axis and segment numbers
const timeline = { zoom: innerWidth < 600 ? 96 : 128, view: null, layout: null, from: 0, to: 0, words: [], pieces: [], head: null };

function showTimeline(view, keep = null) {
  const holder = byId("timeline");
  const style = getComputedStyle(holder);
  const font = `${style.fontSize} ${style.fontFamily}`;
  const centre = keep ?? 0;
  const source = layoutSource(view.words, timeline.zoom, font);
  const target = layoutTarget(view, timeline.zoom, font);
  const speech = TOP + (view.words.length ? source.lanes : 1) * LANE + 26;
  const split = speech + (view.pieces.length ? LANE + 24 : 0);
  Object.assign(timeline, { view, layout: { source, target, speech, split, height: split + 20 + (target.lanes + (target.emissions.some((emission) => emission.folded) ? 1 : 0)) * LANE } });
  holder.replaceChildren();
  const last = Math.max(view.end, ...target.items.slice(-40).map((item) => (item.x + item.width) / timeline.zoom));
  timeline.sheet = build(holder, "div", { class: "sheet", style: `width:${Math.ceil(last * timeline.zoom) + 24}px;height:${timeline.layout.height}px` });
  timeline.content = build(timeline.sheet, "div");
  timeline.head = build(timeline.sheet, "div", { class: "playhead" });
  const lanes = [["source", TOP - 2 - 18], ["target speech", speech - 4], ["target", split - 4]];
  for (const [text, top] of view.pieces.length ? lanes : [lanes[0], lanes[2]]) {
    build(timeline.sheet, "span", { class: "lane-name", style: `margin-top:${top}px` }, text);
  }
  timeline.from = timeline.to = 0;
  holder.scrollLeft = Math.max(0, centre * timeline.zoom - holder.clientWidth * 0.3);
  renderWindow();
}

function renderWindow() {
  const holder = byId("timeline");
  const left = holder.scrollLeft;
  const width = holder.clientWidth;
  moveOverview(timeline.view, left / timeline.zoom, (left + width) / timeline.zoom, clock.time);
  if (timeline.to && left >= timeline.from + width * 0.2 && left + width <= timeline.to - width * 0.2) return;
  if (timeline.to && timeline.from === 0 && left + width <= timeline.to - width * 0.2) return;
  timeline.from = Math.max(0, left - width);
  timeline.to = left + 2 * width;
  const parts = document.createDocumentFragment();
  const isVisible = (x, right) => right >= timeline.from && x <= timeline.to;
  drawRuler(parts);
  drawBands(parts, isVisible);
  drawCuts(parts, isVisible);
  drawSource(parts, isVisible);
  drawEmissions(parts, isVisible);
  drawRevisions(parts, isVisible);
  timeline.pieces = drawSpeech(parts, isVisible);
  timeline.words = timeline.layout.target.items.filter((item) => isVisible(item.x, item.x + item.width)).map((item) => drawWord(parts, item));
  timeline.content.replaceChildren(parts);
  markEmitted(clock.time);
}

function drawRuler(parts) {
  const { zoom, view, from, to } = timeline;
  const step = [0.5, 1, 2, 5, 10, 30, 60].find((size) => size * zoom >= 84) ?? 60;
  for (let mark = Math.floor(from / zoom / step) * step; mark <= Math.min(to / zoom, view.end); mark += step) {
    const label = step < 1 && mark % 1 ? `${minutes(mark)}.5` : minutes(mark);
    build(parts, "span", { class: "ruler", style: `left:${mark * zoom}px` }, label);
  }
}

function drawBands(parts, isVisible) {
  const { zoom, view, layout } = timeline;
  view.segments.forEach(([offset, duration, source], index) => {
    if (!isVisible(offset * zoom, (offset + duration) * zoom)) return;
    const band = build(parts, "div", { class: "band", style: `left:${offset * zoom}px;width:${duration * zoom}px;height:${layout.height - 20}px` });
    build(band, "span", { class: "band-number" }, `${index + 1}`);
    if (!view.words.length) build(band, "span", { class: "band-text", title: source, dir: "auto" }, source);
  });
}

// Kinds of events that drop no audio.
const KEEPING = ["language", "transcript", "revision", "no_output", "unit_limit"];

// A mark in the source where audio was dropped: dashed for a history's cut, else solid.
function drawCuts(parts, isVisible) {
  const { zoom, view, layout } = timeline;
  for (const [time, kind, at, text] of view.events) {
    if (KEEPING.includes(kind) || !isVisible(at * zoom, at * zoom)) continue;
    const node = build(parts, "span", { class: `drop ${kind}`, style: `left:${at * zoom}px;top:${TOP - 18}px;height:${layout.speech - TOP + 14}px` });
    tipFor(node, () => [text, `at ${seconds(time)}: audio before ${seconds(at)} is no longer kept`]);
  }
}

function drawSource(parts, isVisible) {
  for (const item of timeline.layout.source.items) {
    if (!isVisible(item.x, item.right)) continue;
    const top = TOP + item.lane * LANE;
    const node = build(parts, "span", { class: "source-word", lang: timeline.view.language, style: `left:${item.x}px;top:${top}px;--width:${item.width}px` }, item.text);
    node.addEventListener("click", () => seek(item.start));
    tipFor(node, () => [item.text, `source audio ${seconds(item.start)} to ${seconds(item.end)}`]);
  }
}

function drawEmissions(parts, isVisible) {
  const { layout } = timeline;
  const base = layout.split + 18;
  for (const emission of layout.target.emissions) {
    if (!isVisible(emission.x, emission.x + emission.width)) continue;
    const bottom = base + (emission.lane + emission.lines) * LANE;
    build(parts, "div", { class: "emission", style: `left:${emission.x}px;top:${TOP - 2}px;height:${bottom - TOP}px` });
    if (emission.folded) {
      build(parts, "span", { class: "folded", style: `left:${emission.x}px;top:${bottom - 2}px` }, `and ${emission.folded} more, see the segments`);
    }
  }
}

// Words that a system deleted, above the words that it emitted at the same time.
function drawRevisions(parts, isVisible) {
  const { zoom, view, layout } = timeline;
  for (const [delay, kind, , text, elapsed] of view.events) {
    if (kind !== "revision") continue;
    const time = view.isAware ? elapsed : delay;
    const x = time * zoom;
    if (!isVisible(x, x)) continue;
    const node = build(parts, "del", { class: "deleted", lang: view.target, dir: "auto", style: `left:${x}px;top:${layout.split}px` }, text);
    tipFor(node, () => [text, `deleted at ${seconds(time)}`]);
  }
}

// Pieces of target speech from start to end, with their text.
function drawSpeech(parts, isVisible) {
  const { zoom, view, layout } = timeline;
  const near = view.pieces.filter(({ start, duration }) => isVisible(start * zoom, (start + duration) * zoom));
  return near.map((piece) => {
    const { start, duration, text } = piece;
    const node = build(parts, "span", { class: "piece", lang: view.target, dir: "auto", style: `left:${start * zoom}px;top:${layout.speech + 18}px;width:${duration * zoom}px` }, text);
    node.addEventListener("click", () => seek(start));
    tipFor(node, () => [text, `played ${seconds(start)} to ${seconds(start + duration)}`]);
    return { node, start };
  });
}

function drawWord(parts, item) {
  const { view, layout } = timeline;
  const top = layout.split + 18 + item.lane * LANE;
  const lag = view.lags[item.unit];
  const node = build(parts, "span", { class: `word ${view.separator ? "" : "char "}${lagClass(lag)}`, lang: view.target, style: `left:${item.x}px;top:${top}px;width:${item.width}px`, "data-unit": item.unit }, item.text);
  node.addEventListener("click", () => seek(item.time));
  tipFor(node, () => unitLines(view, item.unit), (on) => markLag(item, on));
  return node;
}

// While the pointer is on a target word: a line from its time at an even pace to its emission time.
function markLag(item, on) {
  timeline.sheet.querySelector(".lag-line")?.remove();
  const lag = timeline.view.lags[item.unit];
  if (!on || lag === null) return;
  const from = Math.min(item.time - lag, item.time) * timeline.zoom;
  build(timeline.sheet, "div", { class: `lag-line ${lagClass(lag)}`, style: `left:${from}px;width:${Math.abs(lag) * timeline.zoom}px;top:${timeline.layout.split + 6}px` });
}

function tipFor(node, lines, also = () => {}) {
  node.addEventListener("pointermove", (event) => showTip(lines(), event.clientX, event.clientY));
  node.addEventListener("pointerenter", () => also(true));
  node.addEventListener("pointerleave", () => { hideTip(); also(false); });
}

function markEmitted(time) {
  for (const { node, start } of timeline.pieces) node.classList.toggle("future", clock.started && start > time + 0.001);
  for (const node of timeline.words) node.classList.toggle("future", clock.started && timeline.view.times[node.dataset.unit] > time + 0.001);
}

function moveTimeline(time) {
  const holder = byId("timeline");
  const x = time * timeline.zoom;
  timeline.head.style.transform = `translateX(${x}px)`;
  const inside = x >= holder.scrollLeft + 24 && x <= holder.scrollLeft + holder.clientWidth * (clock.playing ? 0.8 : 0.97);
  if (!inside && clock.started) holder.scrollLeft = Math.max(0, x - holder.clientWidth * 0.25);
  markEmitted(time);
  renderWindow();
}

function zoomTimeline(factor) {
  const holder = byId("timeline");
  const centre = (holder.scrollLeft + holder.clientWidth * 0.3) / timeline.zoom;
  timeline.zoom = clamp(timeline.zoom * factor, 12, 400);
  showTimeline(timeline.view, centre);
  moveTimeline(clock.time);
}

function stepWord(step) {
  const { moments, times } = timeline.view;
  const next = step > 0 ? moments[countUntil(moments, clock.time + 0.01)] : moments[countUntil(moments, clock.time - 0.01) - 1];
  if (next === undefined) return;
  seek(next);
  const { view } = timeline;
  const units = view.units.filter((_, unit) => times[unit] === next);
  byId("announcement").textContent = `At ${seconds(next)}: ${units.join(view.separator)}`;
}

function setUpTimeline() {
  const keys = {
    ArrowRight: () => stepWord(1),
    ArrowLeft: () => stepWord(-1),
    Home: () => seek(0),
    End: () => seek(clock.duration),
    " ": () => (clock.playing ? pause() : play()),
    "+": () => zoomTimeline(1.5),
    "=": () => zoomTimeline(1.5),
    "-": () => zoomTimeline(1 / 1.5),
  };
  byId("timeline").addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  byId("timeline").addEventListener("scroll", () => { hideTip(); renderWindow(); }, { passive: true });
  byId("in").addEventListener("click", () => zoomTimeline(1.5));
  byId("out").addEventListener("click", () => zoomTimeline(1 / 1.5));
  const scale = byId("scale");
  build(scale, "span", {}, "A thin line marks an emission; its words follow to the right.");
  if (hasReferences()) {
    build(scale, "span", {}, "Lag behind an evenly paced translation:");
    LAG_NAMES.forEach((name, index) => build(scale, "span", { class: `key lag-${index}` }, name));
  }
  if (data.streams.some(({ events }) => events.some(([, kind]) => kind === "revision"))) {
    build(scale, "span", {}, "Struck words were deleted when the words below them were emitted.");
  }
  if (data.streams.some(({ events }) => events.some(([, kind]) => !KEEPING.includes(kind)))) {
    build(scale, "span", {}, "In the source, a dashed line marks where a history has cut the audio, a solid line where a segment was truncated or flushed, or a text restarted.");
  }
}
