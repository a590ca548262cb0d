// Streams as the page shows them: units with times, lags, marks of the alignment, and what the tip says about a unit.
const MARKS = { "=": ["right", ""], x: ["wrong", "wrong: the reference has another word here"], "+": ["added", "added: not in the reference"], r: ["repeated", "repeated: words before it, and not in the reference"] };
const views = new Map();

// The view of a stream on a clock: "ideal", or "aware" for computation-aware times.
function makeView(stream, mode) {
  const key = `${mode} ${data.streams.indexOf(stream)}`;
  if (views.has(key)) return views.get(key);
  const talk = data.talks[stream.talk];
  const view = { ...stream, ...talk, target: data.rows[stream.row].target, references: data.references[stream.references] };
  Object.assign(view, { delays: [], elapsed: [], emissions: [], segmentOf: [] });
  const aware = mode === "aware" && stream.aware;
  let first = 0;
  for (const [count, delay, elapsed] of stream.emissions) {
    const time = aware ? elapsed : delay;
    view.emissions.push({ first, count, time });
    for (let unit = 0; unit < count; unit += 1) {
      view.delays.push(delay);
      view.elapsed.push(elapsed);
    }
    first += count;
  }
  view.pieces = (stream.speech?.pieces ?? []).map(([start, duration, later, text]) => ({ start: aware ? later : start, at: start, duration, text }));
  view.isAware = aware;
  view.end = Math.max(talk.duration, ...view.pieces.slice(-1).map((piece) => piece.start + piece.duration));
  view.times = aware ? view.elapsed : view.delays;
  view.moments = Float64Array.from(view.times).sort(); // times of corrected logs may go back
  view.end = Math.max(view.end, ...view.moments.slice(-1)); // computation may end after the talk
  view.lags = stream.lags.map((lag, unit) => (lag === null ? null : lag + view.times[unit] - view.delays[unit]));
  if (!stream.hypotheses) stream.marks.forEach((marks, segment) => { for (let unit = 0; unit < marks.length; unit += 1) view.segmentOf.push(segment); });
  views.set(key, view);
  return view;
}

// Words, or characters without white space, as Python splits them.
const splitUnits = (text, separator) => (separator ? text.split(/\s+/).filter(Boolean) : [...text.replace(/\s+/g, "")]);

// The segments of a view: units, marks, missing reference units, and how many units differ from the reference.
function segmentsOf(view) {
  if (view.parts) return view.parts;
  let first = 0;
  view.parts = view.marks.map((marks, index) => {
    const units = view.hypotheses ? splitUnits(view.hypotheses[index], view.separator) : view.units.slice(first, first + marks.length);
    const reference = splitUnits(view.references[index], view.separator);
    const missing = new Map(); // by the number of units before their place
    for (let pair = 0; pair < view.missing[index].length; pair += 2) {
      const [place, word] = view.missing[index].slice(pair, pair + 2);
      missing.set(place, [...(missing.get(place) ?? []), reference[word]]);
    }
    const lags = view.hypotheses ? [] : view.lags.slice(first, first + marks.length).filter((lag) => lag !== null);
    const wrong = [...marks].filter((mark) => mark !== "=").length + view.missing[index].length / 2;
    const part = {
      units, marks, missing, wrong,
      first: view.hypotheses ? null : first,
      errors: wrong / Math.max(1, reference.length),
      lag: lags.length ? lags.reduce((sum, lag) => sum + lag, 0) / lags.length : null,
      text: units.join(view.separator),
    };
    first += marks.length;
    return part;
  });
  return view.parts;
}

function unitLines(view, unit) {
  const lag = view.lags[unit];
  const segment = view.segmentOf[unit];
  const lines = [view.units[unit].trim(), `delay ${seconds(view.delays[unit])}`];
  if (view.aware) lines.push(`elapsed ${seconds(view.elapsed[unit])} (${view.convention})`);
  if (lag !== null) lines.push(`lag ${seconds(lag)} behind an even pace`);
  if (segment !== undefined) {
    const { marks, first } = segmentsOf(view)[segment];
    lines.push(`segment ${segment + 1}`, ...[MARKS[marks[unit - first]][1]].filter(Boolean));
  }
  return [...lines, ...eventLines(view, view.delays[unit])];
}

// Why a unit was written: the last transcripts, and what else happened after the same chunk.
function eventLines(view, delay) {
  const past = view.events.slice(0, countUntil(view.events, delay + 0.0005, ([time]) => time));
  const transcribed = past.filter(([, kind]) => kind === "transcript").at(-1)?.[0];
  const shown = past.filter(([time, kind]) => (kind === "transcript" ? time === transcribed : time >= delay - 0.0005));
  return shown.map(([, kind, at, text]) => (kind === "transcript" ? `transcript until ${seconds(at)}: ${text || "(empty)"}` : text));
}
