// Reference segments with the hypotheses of several rows side by side. Segments enter the document as the reader scrolls.
const AT_ONCE = 20; // segments drawn at a time
const MOST_ROWS = 6;
const list = { set: 0, rows: [], talk: "all", sort: "order", query: "", items: [], drawn: 0, ready: false };

const hasReferences = () => data.references.some((texts) => texts.some(Boolean));
const rowsWithStreams = () => [...new Set(data.streams.map((stream) => stream.row))].sort((a, b) => a - b);
const streamOf = (row, talk) => data.streams.find((stream) => stream.row === row && stream.talk === talk);
const choosable = () => rowsWithStreams().filter((row) => data.rows[row].set === list.set && isShown(data.rows[row]));

function listSegments() {
  const wanted = list.query.trim().toLowerCase();
  list.items = [];
  data.talks.forEach((talk, index) => {
    if (list.talk !== "all" && Number(list.talk) !== index) return;
    const found = list.rows.map((row) => streamOf(row, index)).map((stream) => stream && makeView(stream, "ideal"));
    const known = found.find(Boolean);
    if (!known) return;
    talk.segments.forEach(([offset, duration, source], place) => {
      const parts = found.map((view) => view && segmentsOf(view)[place]);
      const item = { talk: index, place, offset, duration, source, reference: known.references[place], views: found, parts, known };
      const texts = [source, item.reference, ...parts.filter(Boolean).map((part) => part.text)];
      if (!wanted || texts.some((text) => text.toLowerCase().includes(wanted))) list.items.push(item);
    });
  });
  const value = sortValues()[list.sort];
  if (value) list.items.sort((a, b) => value(b) - value(a));
  drawList();
}

// How bad a segment is, by the name of the order.
function sortValues() {
  const errors = (item, place) => item.parts[place]?.errors ?? -Infinity;
  const values = {};
  list.rows.forEach((_, place) => {
    values[`errors ${place}`] = (item) => errors(item, place);
    values[`lag ${place}`] = (item) => item.parts[place]?.lag ?? -Infinity;
    if (!place) return;
    values[`first ${place}`] = (item) => (item.parts[0] && item.parts[place] ? errors(item, 0) - errors(item, place) : -Infinity);
    values[`other ${place}`] = (item) => (item.parts[0] && item.parts[place] ? errors(item, place) - errors(item, 0) : -Infinity);
  });
  return values;
}

function listSorts() {
  const names = list.rows.map((row) => rowName(data.rows[row]));
  const entries = [["order", "as spoken"]];
  const scored = hasReferences() ? names : [];
  scored.forEach((name, place) => entries.push([`errors ${place}`, `most errors: ${name}`]));
  scored.forEach((name, place) => {
    if (place) entries.push([`first ${place}`, `${names[0]} worse than ${name}`], [`other ${place}`, `${name} worse than ${names[0]}`]);
  });
  scored.forEach((name, place) => entries.push([`lag ${place}`, `largest lag: ${name}`]));
  if (!entries.some(([key]) => key === list.sort)) list.sort = "order";
  options(byId("segment-sort"), entries, list.sort);
}

function listTalks() {
  const talks = data.talks.map((talk, index) => [index, talk.name + (talk.noisy ? ", noisy" : "")]).filter(([index]) => list.rows.some((row) => streamOf(row, index)));
  if (!talks.some(([index]) => String(index) === list.talk)) list.talk = "all";
  options(byId("segment-talk"), [["all", "all"], ...talks], list.talk);
  byId("segment-talk").closest("label").hidden = talks.length < 2;
}

function drawList() {
  byId("segment-list").replaceChildren();
  list.drawn = 0;
  drawMore();
  drawNear();
}

// Draws segments until their end is well below the window. Nothing is listed before the reader comes near.
function drawNear() {
  const end = byId("segment-count");
  const isNear = () => end.getBoundingClientRect().top < innerHeight + 600;
  if (!list.ready && isNear()) {
    list.ready = true;
    chooseRows();
  }
  while (list.drawn < list.items.length && isNear()) drawMore();
}

function drawMore() {
  const holder = byId("segment-list");
  for (const item of list.items.slice(list.drawn, list.drawn + AT_ONCE)) drawSegment(holder, item);
  list.drawn = Math.min(list.items.length, list.drawn + AT_ONCE);
  const all = list.items.length;
  byId("segment-count").textContent = all ? `${all} segment${all === 1 ? "" : "s"}${list.drawn < all ? `, ${list.drawn} drawn` : ""}` : "No segment matches.";
}

function drawSegment(holder, item) {
  const { talk, place, offset, duration, known } = item;
  const box = build(holder, "article", { class: "segment" });
  const head = build(box, "header");
  const label = `${data.talks.length > 1 ? `${data.talks[talk].name}, ` : ""}${minutes(offset)}`;
  const jump = build(head, "button", { type: "button", class: "plain", "aria-label": `Play segment ${place + 1}, ${label}` }, `▶ ${label}`);
  jump.addEventListener("click", () => { openStream(list.rows[item.views.indexOf(known)], talk); seek(offset + 0.001); play(); });
  build(head, "small", {}, `segment ${place + 1}, ${fixed(duration, 1)} s`);
  build(box, "p", { class: "source-text", lang: known.language, dir: "auto" }, item.source);
  if (hasReferences()) build(box, "p", { class: "reference-text", lang: known.target, dir: "auto" }, item.reference);
  const columns = build(box, "div", { class: "hypotheses" });
  list.rows.forEach((row, column) => drawHypothesis(columns, row, item.views[column], item.parts[column], item));
}

function drawHypothesis(columns, row, view, part, item) {
  const cell = build(columns, "div", { class: "hypothesis", style: `--color:${seriesColor(data.rows[row])}` });
  const head = build(cell, "p", { class: "hypothesis-name" });
  const swatch = build(head, "svg:svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" });
  build(swatch, "svg:path", { d: seriesShape(data.rows[row]), class: "shape" });
  head.append(rowName(data.rows[row]));
  if (!part) {
    build(cell, "p", { class: "empty" }, "This row has no stream of this talk.");
    return;
  }
  const lag = part.lag === null ? "" : `, lag ${seconds(part.lag)}`;
  if (hasReferences()) build(head, "small", {}, `${part.wrong} ${part.wrong === 1 ? "error" : "errors"} (${fixed(part.errors * 100, 0)} %)${lag}`);
  const text = build(cell, "p", { class: "hypothesis-text", lang: view.target, dir: "auto", "data-stream": data.streams.findIndex((stream) => stream.row === row && stream.talk === item.talk) });
  if (!part.units.length) build(text, "em", {}, "nothing emitted");
  for (let place = 0; place <= part.units.length; place += 1) {
    for (const word of part.missing.get(place) ?? []) {
      build(text, "span", { class: "unit missing", title: "missing: in the reference" }, word);
      text.append(view.separator);
    }
    if (place < part.units.length) drawUnit(text, view, part, place, item.offset);
  }
}

function drawUnit(text, view, part, place, offset) {
  const unit = part.units[place];
  const attributes = { class: `unit ${MARKS[part.marks[place]][0]}` };
  if (part.first !== null) attributes["data-unit"] = part.first + place;
  const node = build(text, "span", attributes, unit.trimEnd());
  if (part.first !== null) build(node, "small", { class: "delay" }, fixed(view.delays[part.first + place] - offset, 1));
  text.append(view.separator || (unit.endsWith(" ") ? " " : ""));
}

// One listener for all words: the tip of the word at the pointer, and a click that goes to its emission.
function listenToWords(holder) {
  const wordAt = ({ target }) => {
    const node = target.closest("[data-unit]");
    return node && { stream: data.streams[node.parentNode.dataset.stream], unit: Number(node.dataset.unit) };
  };
  holder.addEventListener("pointermove", (event) => {
    const word = wordAt(event);
    if (word) showTip(unitLines(makeView(word.stream, "ideal"), word.unit), event.clientX, event.clientY);
    else hideTip();
  });
  holder.addEventListener("pointerleave", hideTip);
  holder.addEventListener("click", (event) => {
    const word = wordAt(event);
    if (!word) return;
    openStream(word.stream.row, word.stream.talk);
    seek(state.view.times[word.unit]);
  });
}

function chooseRows() {
  const rows = choosable();
  list.rows = list.rows.filter((row) => rows.includes(row));
  if (!list.rows.length) {
    const systems = rows.filter((row) => data.rows[row].kind === "system");
    const first = systems[0] ?? rows[0];
    const other = systems.find((row) => data.rows[row].system !== data.rows[first].system) ?? systems[1];
    list.rows = [first, other].filter((row) => row !== undefined);
  }
  const holder = byId("segment-rows");
  holder.replaceChildren();
  const summary = dropDown(holder, "Systems", rows.map((row) => [row, rowName(data.rows[row])]), (row, checked) => {
    list.rows = checked ? [...list.rows, row].slice(-MOST_ROWS) : list.rows.filter((other) => other !== row);
  }, () => {
    holder.querySelectorAll("input").forEach((box, place) => { box.checked = list.rows.includes(rows[place]); });
    summary(list.rows.length, rows.length);
    showChosen();
  }, (row) => list.rows.includes(row));
  summary(list.rows.length, rows.length);
  showChosen();
}

function showChosen() {
  listTalks();
  listSorts();
  listSegments();
}

function setUpSegments() {
  if (!data.talks.some((talk) => talk.segments.length)) {
    byId("segments").replaceChildren();
    return;
  }
  if (!hasReferences()) byId("segment-marks").textContent = "What was written from the start of each segment on; the talks have no references. Delays count from the start of the segment, in seconds.";
  const sets = [...new Set(rowsWithStreams().map((row) => data.rows[row].set))];
  list.set = sets[0];
  options(byId("segment-set"), sets.map((set) => [set, data.sets[set]]));
  byId("segment-set").closest("label").hidden = sets.length < 2;
  byId("segment-set").addEventListener("change", (event) => { list.set = Number(event.target.value); chooseRows(); });
  byId("segment-talk").addEventListener("change", (event) => { list.talk = event.target.value; listSegments(); });
  byId("segment-sort").addEventListener("change", (event) => { list.sort = event.target.value; listSegments(); });
  byId("segment-search").addEventListener("input", (event) => { list.query = event.target.value; listSegments(); });
  byId("segment-delays").addEventListener("change", (event) => byId("segment-list").classList.toggle("with-delays", event.target.checked));
  listenToWords(byId("segment-list"));
  onFilter(() => list.ready && chooseRows());
  addEventListener("scroll", drawNear, { passive: true });
  addEventListener("resize", drawNear);
  addEventListener("beforeprint", () => {
    if (list.ready) return;
    list.ready = true;
    chooseRows();
  });
  drawNear();
}
