"""Playback of target speech: each piece starts once it is computed and the previous one is over."""

from collections.abc import Sequence

from zoo.base.types import SAMPLE_RATE, Samples, Seconds, SpeechOutput

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
