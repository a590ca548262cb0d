// The data of the page and small helpers. All text reaches the page through textContent, never as markup.
const data = JSON.parse(document.getElementById("report-data").textContent);
const byId = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const fixed = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const seconds = (value) => `${fixed(value, 2)} s`;
const minutes = (value) => `${Math.floor(value / 60)}:${String(Math.floor(value % 60)).padStart(2, "0")}`;
const rowName = (row) => (row.knob ? `${row.system} ${row.knob}` : row.system);

function build(parent, name, attributes = {}, text = null) {
  const node = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

function options(select, entries, chosen) {
  select.replaceChildren();
  for (const [value, text] of entries) build(select, "option", { value }, text);
  if (chosen !== undefined) select.value = String(chosen);
}

function radios(name, change) {
  for (const input of document.querySelectorAll(`input[name="${name}"]`)) {
    input.addEventListener("change", () => change(input.value));
  }
}

// Number of leading items whose key is at most `limit`; the keys never fall.
function countUntil(items, limit, keyOf = (item) => item) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (keyOf(items[middle]) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Round numbers about `count` apart between low and high.
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const marks = [];
  for (let mark = Math.ceil(low / step - 1e-9); mark * step <= high + 1e-9; mark += 1) marks.push(mark * step);
  return { marks, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

const LAG_EDGES = [1, 2, 3, 5]; // seconds
const LAG_NAMES = ["under 1 s", "1–2 s", "2–3 s", "3–5 s", "over 5 s"];
const lagClass = (lag) => (lag === null ? "lag-none" : `lag-${LAG_EDGES.filter((edge) => lag >= edge).length}`);

const tip = byId("tip");

function showTip(lines, x, y) {
  tip.replaceChildren();
  lines.forEach((line, index) => build(tip, index ? "div" : "strong", {}, line));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${clamp(x + 14, 8, Math.max(8, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 12) : y + 18}px`;
}

function hideTip() {
  tip.hidden = true;
}

addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
addEventListener("scroll", hideTip, { passive: true });

// Calls `draw` in the next frame whenever the width of `node` has changed.
function onWidth(node, draw) {
  let width = node.clientWidth;
  new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    requestAnimationFrame(draw);
  }).observe(node);
}
