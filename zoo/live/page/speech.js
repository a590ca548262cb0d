// Plays target speech piece after piece without gaps.
export class Player {
  constructor(rate) {
    this.context = new AudioContext({sampleRate: rate});
    this.end = 0; // time of the context at which the last piece ends
    this.pieces = [];
  }

  play(base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const samples = new Int16Array(bytes.buffer);
    this.pieces.push(samples);
    const buffer = this.context.createBuffer(1, samples.length, this.context.sampleRate);
    buffer.getChannelData(0).set(Float32Array.from(samples, (value) => value / 32768));
    const node = this.context.createBufferSource();
    node.buffer = buffer;
    node.connect(this.context.destination);
    const begin = Math.max(this.end, this.context.currentTime);
    node.start(begin);
    this.end = begin + buffer.duration;
  }

  // The speech so far as a WAV file: a header of 44 bytes, then 16-bit samples.
  wav() {
    const count = this.pieces.reduce((sum, piece) => sum + piece.length, 0);
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
}
