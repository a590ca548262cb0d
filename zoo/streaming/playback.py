"""Playback of target speech: each piece starts once it is computed and the previous one is over."""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.types import SAMPLE_RATE, Instance, Samples, Seconds, SpeechOutput

FULL_SCALE = 1.0  # largest sample magnitude that an audio file can hold


# ``playback_intervals`` and ``start_positions`` apply one rule, the former to exact seconds for
# metrics, the latter to whole samples for waveforms. Neither result can be computed from the other:
# rounded seconds may overlap by a sample, and samples have lost the exact times.


def playback_intervals(
    speech: Sequence[SpeechOutput], *, computation_aware: bool = False
) -> list[tuple[Seconds, Seconds]]:
    """Return when each piece of speech is played, as SimulEval plays speech output.

    Args:
        speech: Pieces of target speech in order.
        computation_aware: Whether a piece is available when it has been computed (``elapsed``)
            instead of when its source has been received (``delay``).

    Returns:
        (start, duration) of each piece in seconds since the stream began.
    """
    intervals: list[tuple[Seconds, Seconds]] = []
    end: Seconds = 0.0
    for output in speech:
        start = max(output.elapsed if computation_aware else output.delay, end)
        intervals.append((start, output.duration))
        end = start + output.duration
    return intervals


def start_positions(
    speech: Sequence[SpeechOutput], *, computation_aware: bool = False
) -> list[Samples]:
    """Return the starts of :func:`playback_intervals` in samples since the stream began.

    Each piece is rounded to samples before the next piece is placed, so pieces never overlap.
    """
    starts: list[Samples] = []
    end: Samples = 0
    for output in speech:
        available = round((output.elapsed if computation_aware else output.delay) * SAMPLE_RATE)
        starts.append(max(available, end))
        end = starts[-1] + output.samples.numel()
    return starts


def timeline(instance: Instance, *, computation_aware: bool = False) -> Tensor:
    """Return the target speech of a stream on the time line of its source.

    Args:
        instance: Stream with target speech.
        computation_aware: See :func:`playback_intervals`.

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
