// The one clock of the talk section: the sound that is listened to, a silent one where there is none.
const clock = { talk: null, duration: 0, time: 0, playing: false, started: false, audio: null, url: null, sounds: {}, listen: "both", last: 0, listeners: [] };
const onTime = (listener) => clock.listeners.push(listener);
const tell = () => clock.listeners.forEach((listener) => listener(clock.time));

// Source audio lies in the page, target speech in files beside it. The position is kept while the talk stays.
function loadStream(stream, duration) {
  const playing = clock.playing && clock.talk === stream.talk;
  if (clock.talk !== stream.talk) {
    if (clock.url) URL.revokeObjectURL(clock.url);
    Object.assign(clock, { talk: stream.talk, time: 0, started: false, url: sourceUrl(stream.talk) });
  }
  clock.duration = duration;
  clock.sounds = { both: stream.speech?.both, source: clock.url, target: stream.speech?.target };
  for (const input of document.querySelectorAll('input[name="listen"]')) input.disabled = !clock.sounds[input.value];
  byId("listen").hidden = !stream.speech;
  listen(clock.listen, playing);
}

function sourceUrl(talk) {
  const block = byId(`audio-${talk}`);
  if (!block) return null;
  const bytes = Uint8Array.from(atob(block.textContent.trim()), (letter) => letter.charCodeAt(0));
  return URL.createObjectURL(new Blob([bytes], { type: "audio/mpeg" }));
}

// Both sides of a stream, or one; what there is where the wanted one is missing.
function listen(wanted, playing = clock.playing) {
  pause();
  clock.listen = wanted;
  const heard = clock.sounds[wanted] ? wanted : ["both", "source", "target"].find((name) => clock.sounds[name]);
  clock.audio = heard ? new Audio(clock.sounds[heard]) : null;
  for (const input of document.querySelectorAll('input[name="listen"]')) input.checked = input.value === heard;
  byId("sound-note").textContent = "";
  if (clock.audio) {
    clock.audio.preload = "auto";
    clock.audio.currentTime = clock.time;
    clock.audio.addEventListener("error", ({ target }) => target === clock.audio && silence(clock.sounds[heard]));
  }
  if (playing) play();
}

function silence(address) {
  clock.audio = null;
  byId("sound-note").textContent = `${decodeURI(address)} cannot be played; it must lie beside the page. The clock runs in silence.`;
}

function seek(time) {
  clock.time = clamp(time, 0, clock.duration);
  clock.started = clock.time > 0 || clock.playing;
  if (clock.audio) clock.audio.currentTime = clock.time;
  if (clock.playing) sound();
  tell();
}

function play() {
  if (clock.time >= clock.duration - 0.05) seek(0);
  clock.playing = clock.started = true;
  clock.last = performance.now();
  showPlaying();
  sound();
  requestAnimationFrame(tickClock);
}

// Start the sound, unless the clock stands behind its end: the other side may go on.
async function sound() {
  const { audio } = clock;
  if (!audio || clock.time >= audio.duration) return;
  audio.playbackRate = Number(byId("speed").value);
  try {
    await audio.play();
  } catch {
    if (clock.audio === audio && !audio.error) pause(); // the browser refused: no device, or the page was not touched yet
  }
}

function pause() {
  clock.playing = false;
  if (clock.audio) clock.audio.pause();
  showPlaying();
}

function tickClock(now) {
  if (!clock.playing) return;
  const silent = clock.time + ((now - clock.last) / 1000) * Number(byId("speed").value);
  const heard = clock.audio && !clock.audio.ended && clock.time < (clock.audio.duration || Infinity);
  clock.time = Math.min(clock.duration, heard ? clock.audio.currentTime : Math.max(clock.time, silent));
  clock.last = now;
  tell();
  if (clock.time >= clock.duration) pause();
  requestAnimationFrame(tickClock);
}

function showPlaying() {
  byId("play").classList.toggle("playing", clock.playing);
  byId("play").setAttribute("aria-label", clock.playing ? "Pause" : "Play");
}

function setUpClock() {
  byId("play").addEventListener("click", () => (clock.playing ? pause() : play()));
  radios("listen", (wanted) => listen(wanted));
  byId("seek").addEventListener("input", (event) => seek(Number(event.target.value)));
  byId("speed").addEventListener("change", (event) => clock.audio && (clock.audio.playbackRate = Number(event.target.value)));
  onTime((time) => {
    const bar = byId("seek");
    if (document.activeElement !== bar || clock.playing) bar.value = time;
    bar.setAttribute("aria-valuetext", minutes(time));
    byId("time").textContent = `${minutes(time)} / ${minutes(clock.duration)}`;
  });
}
