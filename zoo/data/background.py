"""Noise of a talk, measured in the audio outside of its segments, relative to its speech."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from zoo.base.audio import files as audio
from zoo.base.disk.tar_members import last_change
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Seconds

FRAME: Seconds = 0.05
MARGIN: Seconds = 0.2  # margin around each segment, in which its speech may begin early or fade out
LOUD = -20.0  # level relative to the speech, in dB, from which sound can be taken for speech
QUIET = -25.0  # level relative to the speech, in dB, above which the background makes a talk noisy
SHARE = 0.05  # share of a talk above which loud sound makes the talk noisy
SILENCE = 1e-6  # root mean square below which a level is not defined


@dataclass(frozen=True, slots=True)
class Background:
    """Sound outside of the segments of a talk.

    Attributes:
        level: median level in dB relative to the speech.
        loud: duration of sound that is less than 20 dB quieter than the speech, such as music,
            applause, or speech that has no reference.
        duration: duration of the talk.
    """

    level: float
    loud: Seconds
    duration: Seconds

    @property
    def is_noisy(self) -> bool:
        """Whether the background is loud, or much of the talk is loud sound between segments."""
        return self.level > QUIET or self.loud >= SHARE * self.duration

    def __str__(self) -> str:
        """Describe the background."""
        share = 100 * self.loud / self.duration
        return (
            f"{self.loud:.1f} s ({share:.0f} %) of loud sound between segments, "
            f"background {-self.level:.0f} dB below the speech"
        )


def background(talk: Talk) -> Background | None:
    """Measure the background of a talk.

    Args:
        talk: talk with segments; its audio is kept only for the measurement.

    Returns:
        The background; None without audio, without speech, or without audio outside of segments.

    Raises:
        ZooError: the audio cannot be read.
    """
    if talk.audio is None or not talk.segments:
        return None
    spans = tuple((segment.offset, segment.end) for segment in talk.segments)
    return _measured(talk.audio, last_change(talk.audio), talk.offset, talk.duration, spans)


@lru_cache(maxsize=1000)  # an evaluation writes its report several times
def _measured(
    path: Path,
    changed: int,
    start: Seconds,
    duration: Seconds,
    spans: Sequence[tuple[Seconds, Seconds]],
) -> Background | None:
    """Measure a part of an audio file; ``changed`` makes a changed file be read again."""
    samples = audio.load(path, start=start, duration=duration)
    size = round(FRAME * SAMPLE_RATE)
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    power = frames.square().mean(dim=1)

    times = torch.arange(len(power)) * FRAME
    inside = _within(times, spans, margin=0.0)
    outside = ~_within(times, spans, margin=MARGIN)
    if not (inside.any() and outside.any()):
        return None
    speech = float(power[inside].mean())
    if speech < SILENCE**2:
        return None

    levels = 10 * torch.log10(power[outside].clamp(min=SILENCE**2) / speech)
    return Background(float(levels.median()), float((levels > LOUD).sum()) * FRAME, duration)


def _within(times: Tensor, spans: Sequence[tuple[Seconds, Seconds]], *, margin: Seconds) -> Tensor:
    """Return whether each frame, given by its start, overlaps a span with a margin around it."""
    overlaps = torch.zeros(len(times), dtype=torch.bool)
    for begin, end in spans:
        overlaps |= (times + FRAME > begin - margin) & (times < end + margin)
    return overlaps
