// The clock of the talk section: the position of the audio, or a timer where there is no audio.
const clock = { talk: null, duration: 0, time: 0, playing: false, started: false, audio: null, speech: null, pieces: [], sounds: {}, sound: "both", last: 0, listeners: [] };
const onTime = (listener) => clock.listeners.push(listener);
const notify = () => clock.listeners.forEach((listener) => listener(clock.time));

// Source audio and target speech are parts of the page; what did not fit is in files beside it. The position is kept
// within a talk. The audio leads the clock; target speech follows it, so that its pieces can begin at their elapsed times.
function loadStream(stream, pieces, duration) {
  const playing = clock.playing && clock.talk === stream.talk;
  if (clock.talk !== stream.talk) Object.assign(clock, { talk: stream.talk, time: 0, started: false });
  clock.duration = duration;
  clock.pieces = pieces;
  clock.sounds = soundsOf(stream);
  for (const input of document.querySelectorAll('input[name="sound"]')) input.disabled = !clock.sounds[input.value];
  byId("sound").hidden = !stream.speech;
  selectSound(clock.sound, playing);
}

// Addresses by choice: of the audio that leads the clock, and of the target speech that follows. Without source audio in
// the page, a file has both mixed, on the ideal clock.
function soundsOf(stream) {
  const source = embeddedUrl(`audio-${stream.talk}`);
  const target = stream.speech && (embeddedUrl(`speech-${data.streams.indexOf(stream)}`) ?? stream.speech.target);
  const both = source && target ? { lead: source, target } : stream.speech?.both && { lead: stream.speech.both };
  return { both, source: source && { lead: source }, target: target && { target } };
}

// Selects source and target audio, or one of them; an available choice if the selected choice has no audio.
function selectSound(selected, playing = clock.playing) {
  pause();
  clock.sound = selected;
  const available = clock.sounds[selected] ? selected : ["both", "source", "target"].find((name) => clock.sounds[name]);
  const { lead, target } = clock.sounds[available] ?? {};
  clock.audio = lead ? new Audio(lead) : null;
  clock.speech = target ? new Audio(target) : null;
  for (const input of document.querySelectorAll('input[name="sound"]')) input.checked = input.value === available;
  byId("sound-note").textContent = "";
  for (const [name, address] of [["audio", lead], ["speech", target]]) {
    if (!address) continue;
    clock[name].preload = "auto";
    clock[name].addEventListener("error", (event) => event.target === clock[name] && reportMissing(name, address));
  }
  if (lead) {
    clock.audio.volume = target ? 0.35 : 1; // speech is clearer above a quieter source
    clock.audio.currentTime = clock.time;
  }
  if (playing) play();
}

function reportMissing(name, address) {
  clock[name] = null;
  byId("sound-note").textContent = `${decodeURI(address)} cannot be played; keep it beside the report. The timeline plays without ${name === "speech" ? "target speech" : "sound"}.`;
}

function seek(time) {
  clock.time = clamp(time, 0, clock.duration);
  clock.started = clock.time > 0 || clock.playing;
  if (clock.audio) clock.audio.currentTime = clock.time;
  if (clock.playing) sound();
  notify();
}

function play() {
  if (clock.time >= clock.duration - 0.05) seek(0);
  clock.playing = clock.started = true;
  clock.last = performance.now();
  showPlaying();
  sound();
  requestAnimationFrame(tickClock);
}

// Start the audio, unless the clock is past its end: the other side may be longer.
async function sound() {
  const { audio } = clock;
  if (!audio || clock.time >= audio.duration) return;
  audio.playbackRate = Number(byId("speed").value);
  try {
    await audio.play();
  } catch {
    if (clock.audio === audio && !audio.error) pause(); // the browser refused: no device, or no user gesture yet
  }
}

function pause() {
  clock.playing = false;
  if (clock.audio) clock.audio.pause();
  followSpeech(clock.time);
  showPlaying();
}

// The position now, which is up to a frame after clock.time.
function presentTime(now = performance.now()) {
  if (!clock.playing) return clock.time;
  const timed = clock.time + ((now - clock.last) / 1000) * Number(byId("speed").value);
  const sounding = clock.audio && !clock.audio.ended && clock.time < (clock.audio.duration || Infinity);
  return Math.min(clock.duration, sounding ? clock.audio.currentTime : Math.max(clock.time, timed));
}

function tickClock(now) {
  if (!clock.playing) return;
  clock.time = presentTime(now);
  clock.last = now;
  notify();
  if (clock.time >= clock.duration) pause();
  requestAnimationFrame(tickClock);
}

function showPlaying() {
  for (const button of document.querySelectorAll(".play")) {
    button.classList.toggle("playing", clock.playing);
    button.setAttribute("aria-label", clock.playing ? "Pause" : "Play");
  }
}

function setUpClock() {
  byId("play").addEventListener("click", () => (clock.playing ? pause() : play()));
  radios("sound", (selected) => selectSound(selected));
  byId("seek").addEventListener("input", (event) => seek(Number(event.target.value)));
  byId("speed").addEventListener("change", (event) => clock.audio && (clock.audio.playbackRate = Number(event.target.value)));
  onTime(followSpeech);
  onTime((time) => {
    const bar = byId("seek");
    if (document.activeElement !== bar || clock.playing) bar.value = time;
    bar.setAttribute("aria-valuetext", minutes(time));
    byId("time").textContent = `${minutes(time)} / ${minutes(clock.duration)}`;
  });
}
