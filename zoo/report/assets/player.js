// Audio of the talks: parts of the page as object URLs, and two of them played as one.
const audioUrls = new Map();

// The address of the audio in the script element `id`; null if the page has none.
function embeddedUrl(id) {
  if (!audioUrls.has(id)) {
    const block = byId(id);
    const bytes = block && Uint8Array.from(atob(block.textContent.trim()), (letter) => letter.charCodeAt(0));
    audioUrls.set(id, block && URL.createObjectURL(new Blob([bytes], { type: block.dataset.type })));
  }
  return audioUrls.get(id);
}

// Source and target as one player with the members of Audio that the clock uses; the source is quieter.
function playerOf(urls) {
  if (urls.length === 1) return new Audio(urls[0]);
  const [source, target] = urls.map((url) => new Audio(url));
  source.volume = 0.35;
  const both = [source, target];
  const playable = () => both.filter((audio) => !(audio.currentTime >= audio.duration));
  return {
    get currentTime() { return Math.max(source.currentTime, target.currentTime); },
    set currentTime(time) { for (const audio of both) audio.currentTime = time; },
    get duration() { return Math.max(source.duration || 0, target.duration || 0) || NaN; },
    get ended() { return both.every((audio) => audio.ended); },
    get error() { return source.error ?? target.error; },
    set playbackRate(rate) { for (const audio of both) audio.playbackRate = rate; },
    set preload(value) { for (const audio of both) audio.preload = value; },
    addEventListener(name, listener) { for (const audio of both) audio.addEventListener(name, () => listener({ target: this })); },
    pause() { for (const audio of both) audio.pause(); },
    async play() { await Promise.all(playable().map((audio) => audio.play())); },
  };
}
