// One system on the page: its socket, its words, its downloads.
import {Player} from "./speech.js";
import {RATE, toInt16} from "./sources.js";
import {Words} from "./words.js";

const SILENCE = 10000; // milliseconds after which no audio is sent, as a sign of life in a pause

export class Panel {
  constructor(system, token) {
    this.system = system;
    this.token = token;
    this.talk = null;
    this.seconds = 0; // of audio that was sent
    this.problem = ""; // why it ended too early
    this.addresses = []; // of the downloads
    this.ended = new Promise((resolve) => { this.end = resolve; });
    const section = document.getElementById("panel").content.cloneNode(true).firstElementChild;
    this.part = (name) => section.querySelector(name);
    this.name = system.latencies.length < 2 ? system.name
      : `${system.name} ${system.knob}=${system.value}`;
    this.part("h2").textContent =
      `${this.name}, ${system.source_language} → ${system.target_language}`;
    this.part(".words").lang = system.target_language;
    if (system.source_language !== "auto") this.part(".transcript").lang = system.source_language;
    this.words = new Words(this.part(".words"));
    this.section = section;
    this.facts(null);
  }

  // Open the socket. talk: name of the talk that is the source, or null.
  connect(talk) {
    this.talk = talk;
    const address = new URL("./", location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    address.search = this.token ? `?token=${encodeURIComponent(this.token)}` : "";
    address.hash = "";
    this.socket = new WebSocket(address);
    this.socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.socket.onclose = (event) => {
      this.fail(event.reason || "The connection was lost; what has arrived can be downloaded.");
    };
    return new Promise((resolve, reject) => {
      this.socket.onopen = () => {
        const {name, source_language, target_language, speaks, value} = this.system;
        this.socket.send(JSON.stringify({
          sample_rate: RATE, source_lang: source_language, target_lang: target_language,
          system: name, latency: value, speech: speaks, talk,
        }));
        if (speaks) this.player = new Player(RATE);
        this.timer = setInterval(() => this.send(new Float32Array(0)), SILENCE);
        resolve();
      };
      this.socket.onerror = () => reject(new Error("The server does not answer."));
    });
  }

  disconnect() {
    clearInterval(this.timer);
    if (!this.socket) return;
    this.socket.onclose = null;
    this.socket.close();
  }

  // Give back what a panel that is no longer shown holds.
  dispose() {
    this.disconnect();
    this.player?.close();
    for (const address of this.addresses) URL.revokeObjectURL(address);
  }

  // Send audio; null ends the stream.
  send(samples) {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (samples === null) {
      clearInterval(this.timer);
      this.socket.send(JSON.stringify({end_of_stream: true}));
    } else {
      this.seconds += samples.length / RATE;
      this.socket.send(toInt16(samples).buffer);
    }
  }

  receive(message) {
    if (message.error) this.show(".problem", this.problem = message.error);
    if (message.transcript) {
      const area = this.show(".transcript", message.transcript);
      area.scrollTop = area.scrollHeight;
    }
    if (message.deleted) this.words.remove(message.deleted);
    if (message.new) this.words.add(message);
    if (message.speech) this.player.play(message.speech);
    if (message.lateness !== undefined) this.facts(message.lateness);
    if (message.scores) this.scores(message.scores);
    if (message.end_of_processing) {
      this.disconnect();
      this.downloads();
      this.end();
    }
  }

  // The stream has ended without its end.
  fail(sentence) {
    clearInterval(this.timer);
    this.problem ||= sentence;
    this.show(".problem", this.problem);
    if (this.words.all.length) this.downloads();
    this.end();
  }

  facts(lateness) {
    const knob = this.system.knob === null ? "" : `${this.system.knob} = ${this.system.value}; `;
    const late = lateness === null ? "" : `; newest output ${lateness.toFixed(2)} s after its audio`;
    this.part(".facts").textContent =
      `${knob}chunks of ${this.system.chunk_seconds.toFixed(2)} s${late}`;
  }

  scores({StreamLAAL: ideal, StreamLAAL_CA: aware, segments}) {
    if (ideal === null) return;
    const computed = aware === null ? "" : `, computation-aware ${aware.toFixed(2)} s`;
    const count = `${segments} segment${segments === 1 ? "" : "s"}`;
    this.show(".scores", `StreamLAAL ${ideal.toFixed(2)} s${computed} (${count})`);
  }

  show(name, text) {
    const area = this.part(name);
    area.hidden = false;
    area.textContent = text;
    return area;
  }

  downloads() {
    const area = this.show(".downloads", "");
    const {name, system: {separator}} = this;
    const offer = (label, suffix, content, type) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
      link.download = `${name}.${suffix}`;
      link.textContent = label;
      this.addresses.push(link.href);
      area.append(link);
    };
    const log = this.words.log({talk: this.talk ?? name, seconds: this.seconds, separator});
    offer("Text", "txt", `${this.words.text.trim()}\n`, "text/plain");
    offer("Subtitles", "vtt", this.words.vtt(), "text/vtt");
    offer("Log", "log", log, "application/json");
    if (this.player) offer("Speech", "wav", this.player.wav());
  }
}
