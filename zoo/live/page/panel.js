// One system on the page: its socket, its words, its downloads.
import {Player} from "./speech.js";
import {RATE, toInt16} from "./sources.js";

const NEW = 1500; // milliseconds for which a word is marked as new

export class Panel {
  constructor(system, token) {
    this.system = system;
    this.token = token;
    this.words = []; // {text, delay, elapsed} of what stands
    this.text = "";
    this.seconds = 0; // of audio that was sent
    this.ended = new Promise((resolve) => { this.end = resolve; });
    const section = document.getElementById("panel").content.cloneNode(true).firstElementChild;
    this.part = (name) => section.querySelector(name);
    this.part("h2").textContent =
      `${system.name}, ${system.source_language} → ${system.target_language}`;
    this.part(".words").lang = system.target_language;
    this.part(".transcript").lang = system.source_language;
    this.section = section;
    this.facts(null);
  }

  connect() {
    const address = new URL("./", location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    address.search = this.token ? `?token=${encodeURIComponent(this.token)}` : "";
    address.hash = "";
    this.socket = new WebSocket(address);
    this.socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.socket.onclose = (event) => {
      if (event.reason) this.note(event.reason);
      this.end();
    };
    return new Promise((resolve, reject) => {
      this.socket.onopen = () => {
        const {name, source_language, target_language, speaks} = this.system;
        this.socket.send(JSON.stringify({
          sample_rate: RATE, source_lang: source_language, target_lang: target_language,
          system: name, speech: speaks,
        }));
        if (speaks) this.player = new Player(RATE);
        resolve();
      };
      this.socket.onerror = () => reject(new Error("The server does not answer."));
    });
  }

  // Send audio; null ends the stream.
  send(samples) {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (samples === null) {
      this.socket.send(JSON.stringify({end_of_stream: true}));
    } else {
      this.seconds += samples.length / RATE;
      this.socket.send(toInt16(samples).buffer);
    }
  }

  receive(message) {
    if (message.error) this.note(message.error);
    if (message.transcript) {
      this.part(".transcript").hidden = false;
      this.part(".transcript").textContent = message.transcript;
    }
    if (message.deleted) this.remove(message.deleted);
    if (message.new) this.add(message);
    if (message.speech) this.player.play(message.speech);
    if (message.lateness !== undefined) this.facts(message.lateness);
    if (message.end_of_processing) {
      this.downloads();
      this.end();
      this.socket.close();
    }
  }

  add(message) {
    const area = this.part(".words");
    const word = document.createElement("span");
    word.className = "word new";
    word.textContent = message.new;
    word.title = `after ${message.delay.toFixed(2)} s of speech, ` +
      `shown at ${message.elapsed.toFixed(2)} s`;
    word.dataset.elapsed = message.elapsed;
    word.dataset.delay = message.delay;
    area.append(word);
    area.scrollTop = area.scrollHeight;
    setTimeout(() => word.classList.remove("new"), NEW);
    this.text += message.new;
    this.words.push({text: message.new, delay: message.delay, elapsed: message.elapsed});
  }

  // Strike out the text that the system has deleted, the newest first.
  remove(deleted) {
    let left = [...deleted].length;
    this.text = this.text.slice(0, this.text.length - deleted.length);
    const spans = [...this.part(".words").querySelectorAll(".word:not(.deleted)")].reverse();
    for (const span of spans) {
      if (left <= 0) break;
      const letters = [...span.textContent];
      const kept = Math.max(letters.length - left, 0);
      const struck = document.createElement("span");
      struck.className = "word deleted";
      struck.textContent = letters.slice(kept).join("");
      span.textContent = letters.slice(0, kept).join("");
      span.after(struck);
      left -= letters.length - kept;
      const word = this.words[this.words.length - 1];
      word.text = [...word.text].slice(0, kept).join("");
      if (!word.text) this.words.pop();
      if (!span.textContent) span.remove();
    }
  }

  facts(lateness) {
    const knob = this.system.knob === null ? "" : `${this.system.knob} = ${this.system.value}; `;
    const late = lateness === null ? "" : `; newest output ${lateness.toFixed(2)} s after its audio`;
    this.part(".facts").textContent =
      `${knob}chunks of ${this.system.chunk_seconds.toFixed(2)} s${late}`;
  }

  note(sentence) {
    this.part(".facts").textContent = sentence;
  }

  downloads() {
    const area = this.part(".downloads");
    area.hidden = false;
    area.replaceChildren();
    const offer = (label, name, blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.textContent = label;
      area.append(link);
    };
    const name = this.system.name;
    offer("Text", `${name}.txt`, new Blob([`${this.text.trim()}\n`], {type: "text/plain"}));
    offer("Subtitles", `${name}.vtt`, new Blob([this.vtt()], {type: "text/vtt"}));
    offer("Log", `${name}.log`, new Blob([this.log()], {type: "application/json"}));
    if (this.player) offer("Speech", `${name}.wav`, this.player.wav());
  }

  vtt() {
    const time = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 23);
    const cues = this.words.filter((word) => word.text.trim()).map((word, index, all) => {
      const next = all[index + 1];
      const end = Math.max(next ? next.elapsed : word.elapsed + 3, word.elapsed + 0.1);
      return `${time(word.elapsed)} --> ${time(end)}\n${word.text.trim()}\n`;
    });
    return `WEBVTT\n\n${cues.join("\n")}`;
  }

  // SimulEval's form: a line with the delay and the elapsed milliseconds of each word.
  log() {
    const characters = this.system.separator === "";
    const units = [];
    for (const word of this.words) {
      const parts = characters ? [...word.text.replace(/\s/g, "")] : word.text.trim().split(/\s+/);
      const joins = !characters && units.length && !/^\s/.test(word.text);
      parts.filter(Boolean).forEach((part, index) => {
        if (index === 0 && joins) {
          const last = units[units.length - 1];
          Object.assign(last, {text: last.text + part, delay: word.delay, elapsed: word.elapsed});
        } else {
          units.push({text: part, delay: word.delay, elapsed: word.elapsed});
        }
      });
    }
    const line = {
      index: 0,
      prediction: this.text.trim(),
      delays: units.map((unit) => Math.round(1000 * unit.delay)),
      elapsed: units.map((unit) => Math.round(1000 * unit.elapsed)),
      prediction_length: units.length,
      reference: "",
      source: [],
      source_length: Math.round(1000 * this.seconds),
    };
    return `${JSON.stringify(line)}\n`;
  }
}
