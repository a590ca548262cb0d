"""Target speech of a stream as waveforms: on the time line of its source, and mixed with it."""

import torch
from torch import Tensor

from zoo.base.types import SAMPLE_RATE, Instance
from zoo.streaming.playback import start_positions

FULL_SCALE = 1.0  # largest sample magnitude that an audio file can hold


def timeline(instance: Instance, *, computation_aware: bool = False) -> Tensor:
    """Return the target speech of a stream on the time line of its source.

    Args:
        instance: Stream with target speech.
        computation_aware: See ``playback_intervals``.

    Returns:
        (n,) float32 at 16 kHz with silence in the gaps, as long as the source or longer if speech
        continues after it.
    """
    starts = start_positions(instance.speech, computation_aware=computation_aware)
    end = starts[-1] + instance.speech[-1].samples.numel() if starts else 0

    waveform = torch.zeros(max(end, round(instance.source_length * SAMPLE_RATE)))
    for start, output in zip(starts, instance.speech, strict=True):
        waveform[start : start + output.samples.numel()] = output.samples
    return waveform


def mix(source: Tensor, target: Tensor) -> Tensor:
    """Return a stereo signal: the source on the left channel, the target on the right channel.

    A channel that exceeds full scale is attenuated as a whole.

    Args:
        source: (s,) source speech.
        target: (t,) target speech.

    Returns:
        (max(s, t), 2) float32, the shorter channel padded with silence.
    """
    channels = torch.zeros(max(source.numel(), target.numel()), 2)
    for channel, waveform in enumerate((source, target)):
        peak = float(waveform.abs().max()) if waveform.numel() else 0.0
        channels[: waveform.numel(), channel] = waveform / max(peak, FULL_SCALE)
    return channels
