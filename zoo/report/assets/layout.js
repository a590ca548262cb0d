// Positions of words on the timeline: pixels from times, lanes from measured widths.
const GAP = 7; // pixels between words
const MOST_LINES = 10; // largest number of lines of one emission; further lines are folded
const measured = new Map(); // by font and text
const pen = document.createElement("canvas").getContext("2d");

function textWidth(text, font) {
  if (!measured.has(font)) measured.set(font, new Map());
  const widths = measured.get(font);
  if (!widths.has(text)) {
    pen.font = font;
    widths.set(text, Math.ceil(pen.measureText(text).width));
  }
  return widths.get(text);
}

// First run of `count` lanes that are free at x; `ends` holds the right edge of each lane.
function freeLane(ends, x, count) {
  for (let lane = 0; ; lane += 1) {
    let free = true;
    for (let line = lane; line < lane + count && free; line += 1) free = (ends[line] ?? -Infinity) <= x;
    if (free) return lane;
  }
}

// Source words: {x, width, lane, text, start, end}.
function layoutSource(words, zoom, font) {
  const ends = [];
  const items = words.map(([text, start, end]) => {
    const x = start * zoom;
    const lane = freeLane(ends, x, 1);
    ends[lane] = x + Math.max(textWidth(text, font), (end - start) * zoom) + GAP;
    return { x, width: (end - start) * zoom, right: ends[lane], lane, text, start, end };
  });
  return { items, lanes: Math.max(1, ends.length) };
}

// Units with the same emission time form lines of text that start at this time: {x, lane, width, text, unit, time}.
function layoutTarget(view, zoom, font) {
  const ends = [];
  const items = [];
  const emissions = [];
  const sorted = [...view.emissions].sort((a, b) => a.time - b.time);
  sorted.forEach((emission, place) => {
    const x = emission.time * zoom;
    const room = place + 1 < sorted.length ? sorted[place + 1].time * zoom - x - GAP : 320;
    const lines = flow(emission, view, font, room);
    const shown = lines.slice(0, MOST_LINES);
    const lane = freeLane(ends, x, shown.length);
    shown.forEach((line, index) => {
      for (const word of line.words) items.push({ ...word, x: x + word.left, lane: lane + index, time: emission.time });
      ends[lane + index] = x + line.width + GAP;
    });
    const folded = lines.slice(MOST_LINES).reduce((sum, line) => sum + line.words.length, 0);
    emissions.push({ x, lane, lines: shown.length, folded, width: Math.max(...shown.map((line) => line.width)), first: emission.first });
  });
  return { items, emissions, lanes: Math.max(1, ends.length) };
}

function flow(emission, view, font, room) {
  const space = view.separator ? textWidth(" ", font) + 2 : 0;
  let lines = [];
  for (const width of [Math.max(room, 84), 160, 280, 480]) {
    lines = [{ words: [], width: 0 }];
    for (let unit = emission.first; unit < emission.first + emission.count; unit += 1) {
      const wide = textWidth(view.units[unit], font) + (view.separator ? 4 : 1);
      let line = lines[lines.length - 1];
      if (line.words.length && line.width + space + wide > width) lines.push((line = { words: [], width: 0 }));
      const left = line.words.length ? line.width + space : 0;
      line.words.push({ left, width: wide, text: view.units[unit], unit });
      line.width = left + wide;
    }
    if (lines.length <= MOST_LINES) break;
  }
  return lines;
}
