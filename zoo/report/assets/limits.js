// Limits of the chart's axes. By default far outliers are outside, because they would press all other points together.
const MOST_FAR = 0.25; // largest share of values that may be outliers
const FAR = 2; // an outlier's distance from the other values, in multiples of their range

// Lowest and highest of `values` without far outliers: few values beyond a wide gap. `least` is a range that is no gap.
function nearRange(values, least) {
  const sorted = [...values].sort((a, b) => a - b);
  let [low, high] = [0, sorted.length - 1];
  const most = Math.floor(sorted.length * MOST_FAR);
  const isGap = (from, to, first, last) => sorted[to] - sorted[from] > FAR * Math.max(sorted[last] - sorted[first], least);
  for (let place = sorted.length - most; place < sorted.length; place += 1) {
    if (isGap(place - 1, place, 0, place - 1)) { high = place - 1; break; }
  }
  for (let place = most - 1; place >= 0; place -= 1) {
    if (isGap(place, place + 1, place + 1, high)) { low = place + 1; break; }
  }
  return [sorted[low], sorted[high]];
}

// Limits around `values`, and around the bounds of intervals of those that are near.
function chartRange(values, floor, everything, boundsOf) {
  const [least, most] = everything ? [Math.min(...values), Math.max(...values)] : nearRange(values, 4 * floor);
  const bounds = boundsOf((value) => value >= least && value <= most);
  const [low, high] = [Math.min(least, ...bounds), Math.max(most, ...bounds)];
  const room = Math.max((high - low) * 0.12, floor);
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

// A drag with the mouse calls `choose` with the limits of the area; a double click calls it with null.
function listenToZoom(svg, box, { x0, x1, y0, y1 }, choose) {
  let from = null;
  let area = null;
  const place = (event) => {
    const { left, top } = svg.getBoundingClientRect();
    return { x: clamp(event.clientX - left, box.left, box.right), y: clamp(event.clientY - top, box.top, box.bottom) };
  };
  const sides = (a, b) => ({ x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y) });
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button) return; // a finger scrolls the page
    from = place(event);
    area = build(svg, "svg:rect", { class: "zoom-area", ...sides(from, from) });
    event.preventDefault(); // a drag selects no text
  });
  svg.addEventListener("pointermove", (event) => {
    if (from) for (const [key, value] of Object.entries(sides(from, place(event)))) area.setAttribute(key, value);
  });
  const end = (event) => {
    if (!from) return;
    const { x, y, width, height } = sides(from, place(event));
    from = null;
    area.remove();
    if (width < 8 || height < 8) return;
    const across = (pixel) => x0 + ((pixel - box.left) / (box.right - box.left)) * (x1 - x0);
    const up = (pixel) => y0 + ((box.bottom - pixel) / (box.bottom - box.top)) * (y1 - y0);
    choose({ x: [across(x), across(x + width)], y: [up(y + height), up(y)] });
  };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointerleave", end);
  svg.addEventListener("dblclick", () => choose(null));
}

// Writes below the chart which rows are not drawn, and offers the other limits.
function noteOutside(note, { missing, outside, chosen, choose }) {
  note.textContent = missing;
  const names = outside.slice(0, 6).join(", ") + (outside.length > 6 ? ` and ${outside.length - 6} more` : "");
  if (outside.length) note.append(`${missing ? " " : ""}Outside of the axes: ${names}. `);
  const offer = (text, limits) => {
    build(note, "button", { type: "button", class: "plain" }, text).addEventListener("click", () => choose(limits));
    note.append(" ");
  };
  if (outside.length) offer("Show all rows", "all");
  if (chosen) offer("Reset the axes", null);
}
