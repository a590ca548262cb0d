// Plays target speech piece after piece without gaps.
const LEAD = 0.05; // seconds from now to the begin of a piece that follows no other
const MERGED = 600; // pieces that become one Blob, which the browser may keep on disk

export class Player {
  constructor(rate) {
    this.context = new AudioContext({sampleRate: rate});
    this.context.resume();
    this.end = 0; // sample of the context at which the last piece ends
    this.count = 0; // samples of all pieces
    this.pieces = [];
  }

  // Pieces begin at whole samples: otherwise the browser would interpolate between samples.
  play(base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const samples = new Int16Array(bytes.buffer);
    if (!samples.length) return;
    this.keep(samples);
    const rate = this.context.sampleRate;
    const buffer = this.context.createBuffer(1, samples.length, rate);
    buffer.getChannelData(0).set(Float32Array.from(samples, (value) => value / 32768));
    const node = this.context.createBufferSource();
    node.buffer = buffer;
    node.connect(this.context.destination);
    const now = this.context.currentTime * rate;
    const begin = this.end >= now ? this.end : Math.ceil(now + LEAD * rate);
    node.start(begin / rate);
    this.end = begin + samples.length;
  }

  keep(samples) {
    this.count += samples.length;
    this.pieces.push(samples);
    if (this.pieces.length > MERGED) this.pieces = [new Blob(this.pieces)];
  }

  // The speech so far as a WAV file: a header of 44 bytes, then 16-bit samples.
  wav() {
    const count = this.count;
    const rate = this.context.sampleRate;
    const header = new DataView(new ArrayBuffer(44));
    const text = (at, letters) => [...letters].forEach((letter, index) => {
      header.setUint8(at + index, letter.charCodeAt(0));
    });
    text(0, "RIFF");
    header.setUint32(4, 36 + 2 * count, true);
    text(8, "WAVEfmt ");
    header.setUint32(16, 16, true);
    header.setUint16(20, 1, true);
    header.setUint16(22, 1, true);
    header.setUint32(24, rate, true);
    header.setUint32(28, 2 * rate, true);
    header.setUint16(32, 2, true);
    header.setUint16(34, 16, true);
    text(36, "data");
    header.setUint32(40, 2 * count, true);
    return new Blob([header, ...this.pieces], {type: "audio/wav"});
  }

  close() {
    if (this.context.state !== "closed") this.context.close();
  }
}
