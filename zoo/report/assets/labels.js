// Labels of a chart: each takes the first place where it covers no marker and no other label, else it is left out.
const AROUND = [
  { x: 9, y: 17, "text-anchor": "start" },
  { x: 9, y: -8, "text-anchor": "start" },
  { x: -9, y: 17, "text-anchor": "end" },
  { x: -9, y: -8, "text-anchor": "end" },
  { x: 0, y: -12, "text-anchor": "middle" },
  { x: 0, y: 22, "text-anchor": "middle" },
];

const overlaps = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
const markerBox = (x, y) => ({ x: x - 6, y: y - 6, width: 12, height: 12 });

// Places `text` relative to (x, y). `taken` holds the boxes so far; the box of the label is added.
function placeLabel(text, x, y, places, frame, taken) {
  for (const place of places) {
    for (const [key, value] of Object.entries(place)) text.setAttribute(key, value);
    const own = text.getBBox();
    const box = { x: own.x + x, y: own.y + y, width: own.width, height: own.height };
    const inside = box.x >= frame.left && box.x + box.width <= frame.right && box.y >= frame.top && box.y + box.height <= frame.bottom;
    if (inside && !taken.some((other) => overlaps(box, other))) {
      taken.push(box);
      return true;
    }
  }
  text.remove();
  return false;
}
