// Audio of the talks: parts of the page as object URLs, and target speech piece by piece.
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

const APART = 0.2; // seconds by which target speech may be apart from the clock

// Plays the piece of target speech whose turn it is, as it was played; its place in the file is `at`.
function followSpeech(time) {
  const { speech, pieces } = clock;
  if (!speech) return;
  const piece = clock.playing && pieces.find(({ start, duration }) => start <= time && time < start + duration);
  if (!piece) {
    speech.pause();
    return;
  }
  const wanted = piece.at + time - piece.start;
  if (Math.abs(speech.currentTime - wanted) > APART) speech.currentTime = wanted;
  speech.playbackRate = Number(byId("speed").value);
  if (speech.paused) speech.play().catch(() => {}); // the browser has not loaded it yet: the next moment tries again
}
