// The talk section: the selected talk, row and clock.
const state = { talk: 0, row: 0, mode: "ideal", view: null };

function showStream() {
  const stream = data.streams.find((entry) => entry.talk === state.talk && entry.row === state.row);
  const row = data.rows[state.row];
  const at = state.view && clock.talk === state.talk ? clock.time : 0;
  state.view = makeView(stream, state.mode);
  loadStream(stream, state.view.end);
  document.querySelector('input[name="clock"]').closest("fieldset").hidden = !stream.aware;
  byId("talk-flag").textContent = row.flags.length ? `Flagged: ${row.flags.join("; ")}.` : "";
  const talk = data.talks[state.talk];
  byId("talk-noise").textContent = talk.background ? `${talk.noisy ? "Noisy talk: " : ""}${talk.background}.` : "";
  byId("talk-noise").classList.toggle("flag", talk.noisy);
  byId("seek").max = clock.duration;
  byId("audio-note").textContent = audioNote(stream);
  drawOverview(state.view, seek);
  drawBehind(state.view, seek);
  showTimeline(state.view, at);
  notify();
  history.replaceState(null, "", `#talk=${state.talk}&row=${state.row}&clock=${state.mode}`);
}

function audioNote(stream) {
  if (!data.talks[stream.talk].audio && !stream.speech) return "The report has no audio for this talk (no file, or too large); the timeline plays without sound.";
  return stream.speech && state.mode === "aware" ? "The audio of the target speech is on the ideal clock; the bars show its computation-aware times." : "";
}

function listRows() {
  const streamed = data.streams.filter((stream) => stream.talk === state.talk).map((stream) => stream.row);
  const filtered = streamed.filter((row) => isShown(data.rows[row]) || row === state.row);
  const rows = filtered.length ? filtered : streamed;
  if (!rows.includes(state.row)) state.row = rows.find((row) => data.rows[row].kind === "system") ?? rows[0];
  const many = data.sets.length > 1;
  options(byId("row"), rows.map((index) => [index, rowName(data.rows[index]) + (many ? ` (${data.sets[data.rows[index].set]})` : "") + (data.rows[index].flags.length ? " !" : "")]), state.row);
}

// Shows a row on the talk that is shown, or on its own first talk.
function openRow(row) {
  const same = streamOf(row, state.talk) ?? data.streams.find((stream) => stream.row === row);
  openStream(row, same.talk);
}

function openStream(row, talk) {
  if (state.row === row && state.talk === talk) return;
  Object.assign(state, { row, talk });
  byId("talk").value = String(state.talk);
  listRows();
  showStream();
}

function lastWords(words, count) {
  return words.slice(Math.max(0, words.length - count));
}

function moveCaptions(time) {
  const { view } = state;
  const narrow = innerWidth < 600;
  const end = countUntil(view.words, time + 0.05, (word) => word[2]);
  const received = view.words.slice(Math.max(0, end - 16), end).map(([text]) => text);
  const sourceWords = received.length ? received : view.segments.filter(([offset]) => offset < time).slice(-1).map((segment) => segment[2]);
  const most = view.separator ? (narrow ? 7 : 14) : narrow ? 20 : 44;
  const written = countUntil(view.moments, time + 0.001);
  const targetUnits = view.units.slice(Math.max(0, written - most), written);
  const idle = !clock.started;
  byId("source-caption").textContent = idle ? "Press play or click a word: the source words appear here," : lastWords(sourceWords, narrow ? 7 : 16).join(" ");
  byId("target-caption").textContent = idle ? "and the translation appears here." : targetUnits.join(view.separator) || "no translation yet";
  byId("target-caption").classList.toggle("idle", idle || !targetUnits.length);
}

function setUpTalks() {
  if (!data.streams.length) {
    byId("talks").replaceChildren();
    return;
  }
  const parameters = new URLSearchParams(location.hash.slice(1));
  options(byId("talk"), data.talks.map((talk, index) => [index, `${talk.name} (${minutes(talk.duration)})${talk.audio ? "" : ", no audio"}${talk.noisy ? ", noisy" : ""}`]));
  setUpClock();
  setUpTimeline();
  onFilter(() => { listRows(); showStream(); });
  onTime((time) => { moveTimeline(time); moveCaptions(time); });
  byId("talk").addEventListener("change", (event) => { state.talk = Number(event.target.value); listRows(); showStream(); });
  byId("row").addEventListener("change", (event) => { state.row = Number(event.target.value); showStream(); });
  radios("clock", (value) => { state.mode = value; showStream(); });
  state.talk = clamp(Number(parameters.get("talk") ?? 0) || 0, 0, data.talks.length - 1);
  state.row = Number(parameters.get("row") ?? -1);
  state.mode = parameters.get("clock") === "aware" ? "aware" : "ideal";
  document.querySelector(`input[name="clock"][value="${state.mode}"]`).checked = true;
  byId("talk").value = String(state.talk);
  listRows();
  showStream();
  onWidth(byId("overview"), () => { drawOverview(state.view, seek); drawBehind(state.view, seek); moveTimeline(clock.time); });
  if (parameters.has("t")) seek(Number(parameters.get("t")) || 0);
}

setUpFilters();
setUpChart();
setUpScores(openRow);
setUpTalks();
setUpSegments();
