// The words of a translation: those on the page, and all of them for the files.
const NEW = 1500; // milliseconds for which a word is marked as new
const SHOWN = 200; // newest words that are elements of their own
const OLDER = 6000; // letters of the words before them that the page shows

export class Words {
  constructor(area) {
    this.area = area;
    this.all = []; // {text, delay, elapsed, span} of what stands; older words have no span
    this.older = new Text();
    area.append(this.older);
  }

  get text() {
    return this.all.map((word) => word.text).join("");
  }

  add({new: text, delay, elapsed}) {
    const span = document.createElement("span");
    span.className = "word new";
    span.textContent = text;
    span.title = `after ${delay.toFixed(2)} s of speech, shown at ${elapsed.toFixed(2)} s`;
    span.dataset.elapsed = elapsed;
    span.dataset.delay = delay;
    this.area.append(span);
    setTimeout(() => span.classList.remove("new"), NEW);
    this.all.push({text, delay, elapsed, span});
    this.compact();
    this.area.scrollTop = this.area.scrollHeight;
  }

  // Strike out the text that the system has deleted, which is at the end.
  remove(deleted) {
    let left = deleted.length;
    while (left > 0 && this.all.length) {
      const word = this.all[this.all.length - 1];
      const kept = Math.max(word.text.length - left, 0);
      const removed = word.text.slice(kept);
      left -= removed.length;
      word.text = word.text.slice(0, kept);
      if (word.span) {
        const struck = document.createElement("span");
        struck.className = "word deleted";
        struck.textContent = removed;
        word.span.textContent = word.text;
        word.span.after(struck);
        if (!word.text) word.span.remove();
      } else {
        this.older.data = this.older.data.slice(0, this.older.data.length - removed.length);
      }
      if (!word.text) this.all.pop();
    }
  }

  // Make plain text of the oldest elements, without deleted words, so that a page stays small.
  compact() {
    while (this.area.childElementCount > SHOWN) {
      const oldest = this.area.firstElementChild;
      if (!oldest.classList.contains("deleted")) {
        this.older.data = (this.older.data + oldest.textContent).slice(-OLDER);
        const place = this.all.length - this.area.querySelectorAll(".word:not(.deleted)").length;
        this.all[place].span = null;
      }
      oldest.remove();
    }
  }

  vtt() {
    const time = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 23);
    const cues = this.all.filter((word) => word.text.trim()).map((word, index, all) => {
      const next = all[index + 1];
      const end = Math.max(next ? next.elapsed : word.elapsed + 3, word.elapsed + 0.1);
      return `${time(word.elapsed)} --> ${time(end)}\n${word.text.trim()}\n`;
    });
    return `WEBVTT\n\n${cues.join("\n")}`;
  }

  // SimulEval's form: a line with the delay and the elapsed milliseconds of each word.
  log({talk, seconds, separator}) {
    const units = this.units(separator === "");
    const milliseconds = (value) => Math.round(1000 * value);
    const line = {
      index: 0,
      prediction: units.map((unit) => unit.text).join(separator),
      delays: units.map((unit) => milliseconds(unit.delay)),
      elapsed: units.map((unit) => milliseconds(unit.elapsed)),
      prediction_length: units.length,
      reference: "",
      source: [`${talk}.wav`],
      source_length: milliseconds(seconds),
      talk,
      convention: "queue",
    };
    return `${JSON.stringify(line)}\n`;
  }

  // The words, or the characters of a language without spaces. A word that arrives in parts has the
  // times of its last part.
  units(areCharacters) {
    const units = [];
    let endsInside = false; // the text so far ends within a word
    for (const {text, delay, elapsed} of this.all) {
      const parts = areCharacters ? [...text.replace(/\s/g, "")] : text.split(/\s+/).filter(Boolean);
      parts.forEach((part, index) => {
        if (index === 0 && !areCharacters && endsInside && !/^\s/.test(text)) {
          part = units.pop().text + part;
        }
        units.push({text: part, delay, elapsed});
      });
      if (text) endsInside = !/\s$/.test(text);
    }
    return units;
  }
}
