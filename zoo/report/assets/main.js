// The talk section: the selected talk, its row, another row beside it (-1: none) and the clock.
const state = { talk: 0, row: 0, beside: -1, mode: "aware", view: null, panels: [] };

function showStream() {
  const stream = streamOf(state.row, state.talk);
  const other = streamOf(state.beside, state.talk);
  const row = data.rows[state.row];
  const at = state.view && clock.talk === state.talk ? clock.time : 0;
  state.view = makeView(stream, state.mode);
  const views = [state.view, ...(other ? [makeView(other, state.mode)] : [])];
  loadStream(stream, state.view.pieces, Math.max(...views.map((view) => view.end)));
  document.querySelector('input[name="clock"]').closest("fieldset").hidden = !stream.aware && !other?.aware;
  byId("talk-flag").textContent = row.flags.length ? `Flagged: ${row.flags.join("; ")}.` : "";
  const talk = data.talks[state.talk];
  byId("talk-noise").textContent = talk.background ? `${talk.noisy ? "Noisy talk: " : ""}${talk.background}.` : "";
  byId("talk-noise").classList.toggle("flag", talk.noisy);
  byId("seek").max = Math.ceil(clock.duration * 10) / 10; // a multiple of its step
  byId("audio-note").textContent = audioNote(stream);
  drawOverview(state.view, seek);
  drawBehind(state.view, seek);
  showTimeline(state.view, at);
  showPanels(views);
  notify();
  writeAddress();
}

function writeAddress() {
  const rated = byId("rating").open ? `&rate=${rating.rows}` : `&row=${state.row}&beside=${state.beside}`;
  history.replaceState(null, "", `#talk=${byId("rating").open ? byId("rating-talk").value : state.talk}${rated}&clock=${state.mode}`);
}

function audioNote(stream) {
  if (!data.talks[stream.talk].audio && !stream.speech) return "The report has no audio for this talk (no file, or too large); the timeline plays without sound.";
  const isMixed = clock.sounds.both && !clock.sounds.both.target;
  return isMixed && state.mode === "aware" ? "The audio of the target speech is on the ideal clock; the bars show its computation-aware times." : "";
}

function listRows() {
  const streamed = data.streams.filter((stream) => stream.talk === state.talk).map((stream) => stream.row);
  const filtered = streamed.filter((row) => isShown(data.rows[row]) || row === state.row);
  const rows = filtered.length ? filtered : streamed;
  if (!rows.includes(state.row)) state.row = rows.find((row) => data.rows[row].kind === "system") ?? rows[0];
  const many = data.sets.length > 1;
  const entries = rows.map((index) => [index, rowName(data.rows[index]) + (many ? ` (${data.sets[data.rows[index].set]})` : "") + (data.rows[index].flags.length ? " !" : "")]);
  options(byId("row"), entries, state.row);
  if (state.beside === state.row || !rows.includes(state.beside)) state.beside = -1;
  options(byId("beside"), [[-1, "none"], ...entries.filter(([index]) => index !== state.row)], state.beside);
  byId("beside").closest("label").hidden = rows.length < 2;
}

// The first row of another system.
function chooseBeside() {
  const { system } = data.rows[state.row];
  const other = [...byId("beside").options].find(({ value }) => value >= 0 && data.rows[value].kind === "system" && data.rows[value].system !== system);
  if (!other) return;
  state.beside = Number(other.value);
  byId("beside").value = other.value;
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

function setUpTalks() {
  if (!data.streams.length) {
    byId("talks").replaceChildren();
    return;
  }
  const parameters = new URLSearchParams(location.hash.slice(1));
  options(byId("talk"), data.talks.map((talk, index) => [index, `${talk.name} (${minutes(talk.duration)})${talk.audio ? "" : ", no audio"}${talk.noisy ? ", noisy" : ""}`]));
  setUpClock();
  setUpTimeline();
  setUpLive();
  onFilter(() => { listRows(); showStream(); });
  onTime((time) => { moveTimeline(time); moveCaptions(time); });
  byId("talk").addEventListener("change", (event) => { state.talk = Number(event.target.value); listRows(); showStream(); });
  byId("row").addEventListener("change", (event) => { state.row = Number(event.target.value); listRows(); showStream(); });
  byId("beside").addEventListener("change", (event) => { state.beside = Number(event.target.value); showStream(); });
  radios("clock", (value) => { state.mode = value; showStream(); });
  state.talk = clamp(Number(parameters.get("talk") ?? 0) || 0, 0, data.talks.length - 1);
  state.row = Number(parameters.get("row") ?? -1);
  state.beside = Number(parameters.get("beside") ?? -1);
  state.mode = parameters.get("clock") === "ideal" ? "ideal" : "aware";
  document.querySelector(`input[name="clock"][value="${state.mode}"]`).checked = true;
  byId("talk").value = String(state.talk);
  listRows();
  if (!parameters.has("beside")) chooseBeside();
  showStream();
  onWidth(byId("overview"), () => { drawOverview(state.view, seek); drawBehind(state.view, seek); moveTimeline(clock.time); });
  if (parameters.has("t")) seek(Number(parameters.get("t")) || 0);
  setUpRating();
  const rated = (parameters.get("rate") ?? "").split(",").filter(Boolean).map(Number);
  if (rated.length && rated.every((row) => streamOf(row, state.talk))) openRating(rated, state.talk);
}

setUpFilters();
setUpChart();
setUpScores(openRow);
setUpTalks();
setUpSegments();
