// Sends the samples of the microphone to the page, resampled by the AudioContext.
const SIZE = 1600; // samples of a message, 100 ms

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Float32Array(SIZE);
    this.filled = 0;
  }

  process(inputs) {
    const channels = inputs[0];
    if (!channels.length) return true;
    for (let index = 0; index < channels[0].length; index++) {
      let sum = 0;
      for (const channel of channels) sum += channel[index];
      this.samples[this.filled++] = sum / channels.length;
      if (this.filled === SIZE) {
        this.port.postMessage(this.samples.slice());
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
