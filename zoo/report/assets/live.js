// As it was: what systems had written by a time of the clock, at the times at which a user would have seen it.
const STRUCK = 2; // seconds for which deleted text stays, struck out
const FRESH = 0.8; // seconds for which new text is marked
const PARAGRAPH = 18; // units after which the end of a sentence ends a paragraph; four times as many in characters
const KEPT = 3; // paragraphs in the document
const SENTENCE_END = /[.!?…。！？।؟]["'”’»)]?\s*$/;

// The items of a view in the order of the text: units that stayed, and text that was deleted later. What a chunk wrote
// follows what earlier chunks wrote; deletions are at the end of the text, so that of one chunk what stays longest is first.
function liveItems(view) {
  if (view.items) return view.items;
  const items = view.units.map((text, unit) => ({ text, from: view.times[unit], until: Infinity, written: view.delays[unit], unit }));
  for (const [time, kind, , text, elapsed, pieces] of view.events) {
    if (kind !== "revision") continue;
    const until = view.isAware ? elapsed : time;
    const known = pieces.length ? pieces : [[text, time - 1e-6, until]]; // logs of old versions have no times of deleted text
    for (const [part, written, shown] of known) items.push({ text: part, from: view.isAware ? shown : written, until, written, deleted: time });
  }
  if (items.length > view.units.length) items.sort((a, b) => a.written - b.written || (b.deleted ?? Infinity) - (a.deleted ?? Infinity) || 0);
  view.items = paragraphs(items, view);
  return view.items;
}

// Gives each item its paragraph. Paragraphs depend on the final text alone, so that no line moves while words arrive.
function paragraphs(items, view) {
  const least = view.separator ? PARAGRAPH : 4 * PARAGRAPH;
  let [number, units] = [0, 0];
  view.firstItems = [0]; // of each paragraph
  items.forEach((item, place) => {
    item.paragraph = number;
    if (item.unit === undefined) return;
    units += 1;
    if (units < least || (units < 3 * least && !SENTENCE_END.test(item.text))) return;
    [number, units] = [number + 1, 0];
    view.firstItems.push(place + 1);
  });
  let reach = 0;
  const order = items.map((_, place) => place).sort((a, b) => items[a].from - items[b].from);
  view.appearances = Float64Array.from(order, (place) => items[place].from);
  view.reached = order.map((place) => (reach = Math.max(reach, items[place].paragraph)));
  return items;
}

// [item, state] of the last paragraphs at a time; states are written, fresh and deleted.
function shownItems(view, time) {
  const items = liveItems(view);
  const appeared = countUntil(view.appearances, time + 0.001);
  if (!appeared) return [];
  const last = view.reached[appeared - 1];
  const first = view.firstItems[Math.max(0, last - KEPT + 1)];
  const shown = [];
  for (let place = first; place < items.length && items[place].paragraph <= last; place += 1) {
    const item = items[place];
    if (item.from > time + 0.001 || item.until + STRUCK <= time) continue;
    shown.push([item, item.until <= time + 0.001 ? "deleted" : time - item.from < FRESH ? "fresh" : "written"]);
  }
  return shown;
}

// A panel in `holder` with the text of a row; `name` stands for the name of the row where raters must not know it.
function livePanel(holder, view, row, name = null) {
  const box = build(holder, "div", { class: "panel", role: "group", "aria-label": name ?? rowName(row) });
  const head = build(box, "p", { class: "panel-name" });
  if (name === null) {
    box.style.setProperty("--color", seriesColor(row));
    const swatch = build(head, "svg:svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" });
    build(swatch, "svg:path", { d: seriesShape(row), class: "shape" });
  }
  head.append(name ?? rowName(row));
  const text = build(box, "div", { class: "panel-text", lang: view.target, dir: "auto", role: "log", "aria-live": "off", "aria-label": `Text of ${name ?? rowName(row)}`, tabindex: "0" });
  const speech = view.pieces.length ? build(box, "p", { class: "panel-speech", lang: view.target, dir: "auto" }) : null;
  return { view, text, speech, drawn: null };
}

function movePanel(panel, time) {
  const shown = shownItems(panel.view, time);
  const drawn = shown.map(([item, state]) => `${item.from} ${item.unit} ${state}`).join();
  if (drawn !== panel.drawn) drawPanel(panel, shown);
  panel.drawn = drawn;
  if (!panel.speech) return;
  const piece = panel.view.pieces.find(({ start, duration }) => start <= time && time < start + duration);
  panel.speech.textContent = piece ? `Speaking: ${piece.text}` : "";
}

function drawPanel({ text, view }, shown) {
  const parts = document.createDocumentFragment();
  let [paragraph, line] = [null, null];
  for (const [item, state] of shown) {
    if (item.paragraph !== paragraph) line = build(parts, "p");
    paragraph = item.paragraph;
    build(line, state === "deleted" ? "del" : "span", state === "fresh" ? { class: state } : {}, item.text.trimEnd());
    line.append(view.separator || (item.text.endsWith(" ") ? " " : ""));
  }
  text.replaceChildren(parts);
  text.scrollTop = text.scrollHeight;
}

// Space and arrow keys where the focus is on the captions.
function listenToKeys(holder, keys) {
  holder.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button, input, select, a")) return;
    event.preventDefault();
    keys[event.key]();
  });
}

const SKIP = 5; // seconds

function setUpLive() {
  listenToKeys(byId("captions"), {
    " ": () => (clock.playing ? pause() : play()),
    ArrowRight: () => seek(clock.time + SKIP),
    ArrowLeft: () => seek(clock.time - SKIP),
    Home: () => seek(0),
    End: () => seek(clock.duration),
  });
  if (data.streams.some(({ events }) => events.some(([, kind]) => kind === "revision"))) {
    byId("live-note").textContent = `Deleted words stay ${STRUCK} seconds, struck out.`;
  }
}

// The panels of the chosen rows.
function showPanels(views) {
  byId("live").replaceChildren();
  state.panels = views.map((view) => livePanel(byId("live"), view, data.rows[view.row]));
}

function moveCaptions(time) {
  const { view } = state;
  const narrow = innerWidth < 600;
  const end = countUntil(view.words, time + 0.05, (word) => word[2]);
  const received = view.words.slice(Math.max(0, end - 16), end).map(([text]) => text);
  const sourceWords = received.length ? received : view.segments.filter(([offset]) => offset < time).slice(-1).map((segment) => segment[2]);
  byId("source-caption").textContent = clock.started ? lastWords(sourceWords, narrow ? 7 : 16).join(" ") : "Press play or click a word: the source words appear here, the translation below.";
  for (const panel of state.panels) movePanel(panel, time);
}

function lastWords(words, count) {
  return words.slice(Math.max(0, words.length - count));
}
