// Microphone, files and talks as pieces of 16 kHz audio at real time.
export const RATE = 16000;
const PIECE = 1600; // samples, 100 ms

// A source has start(receive), pause(), resume() and stop(); receive(null) is its end.
export class Microphone {
  async start(receive) {
    this.media = await navigator.mediaDevices.getUserMedia({
      audio: {echoCancellation: false, noiseSuppression: false, autoGainControl: false},
    });
    this.context = new AudioContext({sampleRate: RATE});
    await this.context.audioWorklet.addModule("page/recorder.js");
    this.node = new AudioWorkletNode(this.context, "recorder");
    this.node.port.onmessage = (event) => receive(event.data);
    this.receive = receive;
    this.context.createMediaStreamSource(this.media).connect(this.node);
    await this.context.resume();
  }

  pause() { return this.context.suspend(); }

  resume() { return this.context.resume(); }

  async stop() {
    for (const track of this.media.getTracks()) track.stop();
    this.node.port.onmessage = null;
    await this.context.close();
    this.receive(null);
  }
}

// A recording, which is also played while it is sent.
export class Recording {
  constructor(bytes) {
    this.bytes = bytes;
    this.sent = 0;
  }

  async start(receive) {
    this.receive = receive;
    this.context = new AudioContext({sampleRate: RATE});
    const audio = await this.context.decodeAudioData(this.bytes);
    this.samples = mixed(audio);
    this.node = this.context.createBufferSource();
    this.node.buffer = audio;
    this.node.connect(this.context.destination);
    await this.context.resume();
    this.begun = this.context.currentTime;
    this.node.start();
    this.timer = setInterval(() => this.send(), 50);
  }

  // Send what has been played; the clock of the AudioContext stands still in a pause.
  send() {
    const due = Math.floor((this.context.currentTime - this.begun) * RATE);
    while (this.sent + PIECE <= Math.min(due, this.samples.length)) this.next(PIECE);
    if (due >= this.samples.length) this.end();
  }

  next(size) {
    this.receive(this.samples.slice(this.sent, this.sent + size));
    this.sent += size;
  }

  end() {
    if (this.timer === null) return;
    clearInterval(this.timer);
    this.timer = null;
    if (this.sent < this.samples.length) this.next(this.samples.length - this.sent);
    this.receive(null);
  }

  pause() { return this.context.suspend(); }

  resume() { return this.context.resume(); }

  async stop() {
    if (this.timer === null) return;
    clearInterval(this.timer);
    this.timer = null;
    this.node.stop();
    await this.context.close();
    this.receive(null);
  }
}

function mixed(audio) {
  const samples = new Float32Array(audio.length);
  for (let channel = 0; channel < audio.numberOfChannels; channel++) {
    audio.getChannelData(channel).forEach((value, index) => {
      samples[index] += value / audio.numberOfChannels;
    });
  }
  return samples;
}

export function level(samples) {
  let sum = 0;
  for (const value of samples) sum += value * value;
  return Math.sqrt(sum / Math.max(samples.length, 1));
}

export function toInt16(samples) {
  return Int16Array.from(samples, (value) => Math.max(-32768, Math.min(32767, value * 32768)));
}
