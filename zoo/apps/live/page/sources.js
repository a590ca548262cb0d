// Microphone, files and talks as pieces of 16 kHz audio at real time.
export const RATE = 16000;
const PIECE = 1600; // samples, 100 ms

// A source has start(receive), pause(), resume() and stop(); receive(null) is its end. After stop(),
// also during start(), it is closed and receives nothing.
export class Microphone {
  async start(receive) {
    this.receive = receive;
    try {
      this.media = await navigator.mediaDevices.getUserMedia({
        audio: {echoCancellation: false, noiseSuppression: false, autoGainControl: false},
      });
    } catch (error) {
      throw new Error(`The browser gives no microphone (${error.message}).`);
    }
    if (this.isStopped) return this.close();
    for (const track of this.media.getTracks()) track.onended = () => this.stop(); // unplugged
    this.context = new AudioContext({sampleRate: RATE});
    await this.context.audioWorklet.addModule("page/recorder.js");
    if (this.isStopped) return this.close();
    this.node = new AudioWorkletNode(this.context, "recorder");
    this.node.port.onmessage = (event) => this.receive?.(event.data);
    this.context.createMediaStreamSource(this.media).connect(this.node);
    await this.context.resume();
  }

  pause() { return this.context.suspend(); }

  resume() { return this.context.resume(); }

  async stop() {
    this.isStopped = true;
    const receive = this.node ? this.receive : null;
    this.receive = null;
    await this.close();
    receive?.(null);
  }

  async close() {
    for (const track of this.media?.getTracks() ?? []) track.stop();
    if (this.context && this.context.state !== "closed") await this.context.close();
  }
}

// A recording, which is also played while it is sent.
export class Recording {
  constructor(bytes, name) {
    this.bytes = bytes;
    this.name = name;
    this.sent = 0;
  }

  async start(receive) {
    this.receive = receive;
    this.context = new AudioContext({sampleRate: RATE});
    let audio;
    try {
      audio = await this.context.decodeAudioData(this.bytes);
    } catch {
      if (!this.isStopped) {
        throw new Error(`The browser cannot decode ${this.name}; choose another audio file.`);
      }
    }
    if (this.isStopped) return this.close();
    this.samples = mixed(audio);
    this.node = this.context.createBufferSource();
    this.node.buffer = audio;
    this.node.connect(this.context.destination);
    await this.context.resume();
    if (this.isStopped) return this.close();
    this.begun = this.context.currentTime;
    this.node.start();
    this.timer = setInterval(() => this.send(), 50);
  }

  // Send what has been played; the clock of the AudioContext stands still in a pause.
  send() {
    const due = Math.floor((this.context.currentTime - this.begun) * RATE);
    while (this.receive && this.sent + PIECE <= Math.min(due, this.samples.length)) this.next(PIECE);
    if (this.receive && due >= this.samples.length) {
      if (this.sent < this.samples.length) this.next(this.samples.length - this.sent);
      this.stop();
    }
  }

  next(size) {
    this.receive(this.samples.slice(this.sent, this.sent + size));
    this.sent += size;
  }

  pause() { return this.context.suspend(); }

  resume() { return this.context.resume(); }

  async stop() {
    this.isStopped = true;
    const receive = this.timer === undefined ? null : this.receive;
    this.receive = null;
    await this.close();
    receive?.(null);
  }

  async close() {
    clearInterval(this.timer);
    if (this.context && this.context.state !== "closed") await this.context.close();
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
  return Int16Array.from(samples, (value) => {
    return Math.max(-32768, Math.min(32767, Math.round(value * 32768)));
  });
}
