"""When target speech is heard: each piece as soon as it is there and the one before it is over. Knows no file."""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.types import SAMPLE_RATE, Instance, Samples, Seconds, SpeechOutput

FULL_SCALE = 1.0


def playback_intervals(
    speech: Sequence[SpeechOutput], *, aware: bool = False
) -> list[tuple[Seconds, Seconds]]:
    """(start, duration) of each piece, in seconds since the stream began, as SimulEval plays speech output.

    aware: a piece is there when it has been computed (``elapsed``), not when its source had been received (``delay``).
    """
    played: list[tuple[Seconds, Seconds]] = []
    over: Seconds = 0.0
    for spoken in speech:
        start = max(spoken.elapsed if aware else spoken.delay, over)
        played.append((start, spoken.duration))
        over = start + spoken.duration
    return played


def start_positions(speech: Sequence[SpeechOutput], *, aware: bool = False) -> list[Samples]:
    """The sample on the source's time line at which each piece begins; ``intervals`` to the nearest sample."""
    found: list[Samples] = []
    over: Samples = 0
    for spoken in speech:
        found.append(max(round((spoken.elapsed if aware else spoken.delay) * SAMPLE_RATE), over))
        over = found[-1] + spoken.samples.numel()
    return found


def timeline(instance: Instance, *, aware: bool = False) -> Tensor:
    """(n,) float32 at 16 kHz: target speech on the source's time line, from its beginning, with silence in the gaps.

    As long as the source, or longer where speech goes on after it. Every sample of speech is there once.
    """
    places = list(zip(start_positions(instance.speech, aware=aware), instance.speech, strict=True))
    over = places[-1][0] + places[-1][1].samples.numel() if places else 0
    wave = torch.zeros(max(over, round(instance.source_length * SAMPLE_RATE)))
    for begin, spoken in places:
        wave[begin : begin + spoken.samples.numel()] = spoken.samples
    return wave


def mix(source: Tensor, target: Tensor) -> Tensor:
    """(n, 2) float32: the (s,) source on the left, the (t,) target on the right, the shorter one with silence after it.

    A side that is louder than a file can hold is turned down as a whole.
    """
    sides = torch.zeros(max(source.numel(), target.numel()), 2)
    for place, wave in enumerate((source, target)):
        loudest = float(wave.abs().max()) if wave.numel() else 0.0
        sides[: wave.numel(), place] = wave / max(loudest, FULL_SCALE)
    return sides
