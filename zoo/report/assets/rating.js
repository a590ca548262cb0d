// Continuous rating: one system at a time without its name, presses of 0 to 4 with the time of the source audio, and a
// file for each system. A page that was opened from a disk can write no file; the browser saves it.
const rating = { rows: [], talk: 0, rater: "", order: [], place: 0, runs: new Map(), panel: null, before: null };
const letter = (place) => String.fromCharCode(65 + place);
const isRating = () => byId("rating").open && !byId("rating-run").hidden;
const currentRun = () => rating.runs.get(rating.order[rating.place]);

// The same rater gets the same order of the systems of a talk on every machine.
function shuffled(items, seed) {
  let hash = 2166136261;
  for (const letter of seed) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0;
  const next = () => {
    hash = (hash + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(hash ^ (hash >>> 15), hash | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const order = [...items];
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = Math.floor(next() * (last + 1));
    [order[last], order[other]] = [order[other], order[last]];
  }
  return order;
}

// Opens the dialog for rows of a talk. The address then leads others to it.
function openRating(rows, talk) {
  pause();
  rating.rows = rows;
  rating.before = { talk: state.talk, row: state.row, beside: state.beside };
  const talks = data.talks.map((entry, index) => [index, entry.name]).filter(([index]) => rows.every((row) => streamOf(row, index)));
  options(byId("rating-talk"), talks, talks.some(([index]) => index === talk) ? talk : talks[0][0]);
  byId("rating-systems").textContent = `${rows.length === 1 ? "One system" : `${rows.length} systems`}. The address of this page, as it is now, opens this dialog: send it to raters together with the page.`;
  byId("rating-setup").hidden = false;
  byId("rating-run").hidden = true;
  byId("rating").showModal();
  byId("rater").focus();
  writeAddress();
}

function beginRating() {
  const rater = byId("rater").value.trim();
  if (!rater) return;
  Object.assign(rating, { rater, talk: Number(byId("rating-talk").value), place: 0, runs: new Map() });
  rating.order = shuffled(rating.rows, `${rater.toLowerCase()} ${data.talks[rating.talk].name}`);
  byId("rating-setup").hidden = true;
  byId("rating-run").hidden = false;
  showRated();
  byId("rating-play").focus();
}

// Shows the system whose turn it is, from the beginning.
function showRated() {
  const row = rating.order[rating.place];
  rating.panel = null; // of the system before
  Object.assign(state, { row, talk: rating.talk, beside: -1 });
  byId("talk").value = String(state.talk);
  byId("speed").value = "1";
  listRows();
  showStream();
  selectSound("both", false);
  rating.runs.set(row, { presses: [], until: 0, saved: true });
  byId("rating-live").replaceChildren();
  const name = `System ${letter(rating.place)}`;
  rating.panel = livePanel(byId("rating-live"), state.view, data.rows[row], name);
  byId("rating-label").textContent = `${name} (${rating.place + 1} of ${rating.order.length}), talk ${data.talks[rating.talk].name}, rater ${rating.rater}`;
  byId("rating-next").hidden = rating.place + 1 >= rating.order.length;
  byId("rating-note").textContent = Object.values(clock.sounds).some(Boolean) ? "" : "The page has no audio of this talk.";
  seek(0);
  showPress();
}

function showPress() {
  const { presses } = currentRun();
  const [, value] = presses.at(-1) ?? [];
  for (const button of document.querySelectorAll("[data-rating]")) button.setAttribute("aria-pressed", String(Number(button.dataset.rating) === value));
  byId("rating-current").textContent = presses.length ? `Rating ${value || "none"}, ${presses.length} ${presses.length === 1 ? "press" : "presses"}` : "No rating yet";
}

function pressRating(value) {
  const run = currentRun();
  if (!clock.playing) {
    byId("rating-note").textContent = "A rating belongs to a moment of the talk: press play first.";
    return;
  }
  const time = Math.round(presentTime() * 1000) / 1000;
  if (run.presses.length && run.presses.at(-1)[0] >= time) run.presses.pop();
  run.presses.push([time, value]);
  run.until = Math.max(run.until, time);
  run.saved = false;
  byId("rating-note").textContent = "";
  showPress();
}

// Plays and pauses. The end is the end: another start would go back in time.
function toggleRating() {
  if (clock.playing) pause();
  else if (clock.time < clock.duration - 0.05) play();
}

function moveRating(time) {
  if (!isRating() || !rating.panel) return;
  movePanel(rating.panel, time);
  const run = currentRun();
  if (clock.playing) run.until = Math.max(run.until, Math.round(time * 1000) / 1000);
  byId("rating-progress").max = clock.duration;
  byId("rating-progress").value = time;
  byId("rating-time").textContent = `${minutes(time)} / ${minutes(clock.duration)}`;
  if (time >= clock.duration && run.presses.length) byId("rating-note").textContent = "The talk has ended. Save the rating.";
}

function ratingFile() {
  const row = data.rows[rating.order[rating.place]];
  const { presses, until } = currentRun();
  return {
    version: 1,
    rater: rating.rater,
    talk: data.talks[rating.talk].name,
    row: row.log,
    system: rowName(row),
    clock: state.view.isAware ? "aware" : "ideal",
    until,
    ratings: presses,
  };
}

function saveRating() {
  const run = currentRun();
  if (!run.presses.some(([, value]) => value)) {
    byId("rating-note").textContent = "There is no rating from 1 to 4 to save.";
    return;
  }
  const name = `rating_${rating.rater}_${data.talks[rating.talk].name}_${rating.order[rating.place]}`.replace(/[^\p{L}\p{N}_.-]+/gu, "-");
  const address = URL.createObjectURL(new Blob([`${JSON.stringify(ratingFile(), null, 1)}\n`], { type: "application/json" }));
  const link = build(document.body, "a", { href: address, download: `${name}.json` });
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  run.saved = true;
  byId("rating-note").textContent = `Saved as ${name}.json. Its place is the folder "ratings" of the run.`;
}

// Closes the dialog; the page shows again what it showed before.
function closeRating() {
  byId("rating").close();
  if (!rating.before) return;
  pause();
  Object.assign(state, rating.before);
  Object.assign(rating, { before: null, panel: null });
  rating.runs.clear();
  byId("talk").value = String(state.talk);
  listRows();
  showStream();
}

const isUnsaved = () => [...rating.runs.values()].some((run) => !run.saved);

function setUpRating() {
  const dialog = byId("rating");
  byId("rate").addEventListener("click", () => openRating([...new Set([state.row, state.beside])].filter((row) => row >= 0), state.talk));
  byId("rating-form").addEventListener("submit", (event) => { event.preventDefault(); beginRating(); });
  byId("rating-play").addEventListener("click", toggleRating);
  byId("rating-save").addEventListener("click", saveRating);
  byId("rating-again").addEventListener("click", () => { pause(); showRated(); });
  byId("rating-next").addEventListener("click", () => {
    if (!currentRun().saved && !confirm("This rating is not saved. Go on without it?")) return;
    currentRun().saved = true;
    pause();
    rating.place += 1;
    showRated();
    byId("rating-play").focus();
  });
  byId("rating-close").addEventListener("click", () => { if (!isUnsaved() || confirm("A rating is not saved. Close?")) closeRating(); });
  dialog.addEventListener("cancel", (event) => { if (isUnsaved() && !confirm("A rating is not saved. Close?")) event.preventDefault(); });
  dialog.addEventListener("close", () => dialog.open || closeRating()); // also by the Escape key
  for (const button of document.querySelectorAll("[data-rating]")) button.addEventListener("click", () => pressRating(Number(button.dataset.rating)));
  dialog.addEventListener("keydown", (event) => {
    if (!isRating() || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (/^[0-4]$/.test(event.key)) pressRating(Number(event.key));
    else if (event.key === " " && !event.target.closest("button")) toggleRating();
    else return;
    event.preventDefault();
  });
  addEventListener("beforeunload", (event) => isUnsaved() && event.preventDefault());
  onTime(moveRating);
}
