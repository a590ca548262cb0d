// The one clock of the talk section: the audio where the page carries it, a silent one where it does not.
const clock = { talk: null, duration: 0, time: 0, playing: false, started: false, audio: null, url: null, last: 0, listeners: [] };
const onTime = (listener) => clock.listeners.push(listener);
const tell = () => clock.listeners.forEach((listener) => listener(clock.time));

function loadTalk(index) {
  pause();
  if (clock.url) URL.revokeObjectURL(clock.url);
  Object.assign(clock, { talk: index, duration: data.talks[index].duration, time: 0, started: false, audio: null, url: null });
  const block = byId(`audio-${index}`);
  if (!block) return;
  const bytes = Uint8Array.from(atob(block.textContent.trim()), (letter) => letter.charCodeAt(0));
  clock.url = URL.createObjectURL(new Blob([bytes], { type: "audio/mpeg" }));
  clock.audio = new Audio(clock.url);
  clock.audio.preload = "auto";
  clock.audio.addEventListener("ended", pause);
}

function seek(time) {
  clock.time = clamp(time, 0, clock.duration);
  clock.started = clock.time > 0 || clock.playing;
  if (clock.audio) clock.audio.currentTime = clock.time;
  tell();
}

async function play() {
  if (clock.time >= clock.duration - 0.05) seek(0);
  clock.playing = clock.started = true;
  clock.last = performance.now();
  showPlaying();
  if (clock.audio) {
    clock.audio.playbackRate = Number(byId("speed").value);
    try {
      await clock.audio.play();
    } catch {
      pause(); // the browser refused: no device, or the page was not touched yet
      return;
    }
  }
  requestAnimationFrame(tickClock);
}

function pause() {
  clock.playing = false;
  if (clock.audio) clock.audio.pause();
  showPlaying();
}

function tickClock(now) {
  if (!clock.playing) return;
  const silent = clock.time + ((now - clock.last) / 1000) * Number(byId("speed").value);
  clock.time = Math.min(clock.duration, clock.audio ? clock.audio.currentTime : Math.max(clock.time, silent));
  clock.last = now;
  tell();
  if (clock.time >= clock.duration && !clock.audio) pause();
  requestAnimationFrame(tickClock);
}

function showPlaying() {
  byId("play").classList.toggle("playing", clock.playing);
  byId("play").setAttribute("aria-label", clock.playing ? "Pause" : "Play");
}

function setUpClock() {
  byId("play").addEventListener("click", () => (clock.playing ? pause() : play()));
  byId("seek").addEventListener("input", (event) => seek(Number(event.target.value)));
  byId("speed").addEventListener("change", (event) => clock.audio && (clock.audio.playbackRate = Number(event.target.value)));
  onTime((time) => {
    const bar = byId("seek");
    if (document.activeElement !== bar || clock.playing) bar.value = time;
    bar.setAttribute("aria-valuetext", minutes(time));
    byId("time").textContent = `${minutes(time)} / ${minutes(clock.duration)}`;
  });
}
