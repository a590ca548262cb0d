"""Splits the target speech of a stream into pieces for speech recognition and UTMOS."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from zoo.languages import Language
from zoo.metrics.speech import SHORTEST_GAP
from zoo.streaming.playback import playback_intervals
from zoo.types import SAMPLE_RATE, Instance, Seconds, SpeechOutput

LONGEST: Seconds = 25.0  # of a piece; the window of Whisper is 30 s
PAUSE: Seconds = 0.2  # kept of each gap; without a pause, words spoken separately run together


def split_speech(
    instance: Instance, *, language: Language, longest: Seconds = LONGEST
) -> list[Tensor]:
    """Split the target speech of a stream into pieces, with gaps shortened to ``PAUSE``.

    Each piece ends at the last suitable place: a gap in the playback, else the end of a word, else
    the end of an output. A gap inside a word does not count. An output is never split.

    Args:
        instance: Stream with target speech.
        language: Target language.
        longest: Maximum duration of a piece in seconds; a longer output is a piece of its own.

    Returns:
        (n,) waveforms at 16 kHz.
    """
    speech = instance.speech
    gaps = _gaps(speech)
    ranks = _rank_starts(instance, gaps, language)

    pieces: list[Tensor] = []
    first = 0
    while first < len(speech):
        durations = [
            min(gap, PAUSE) + output.duration
            for gap, output in zip(gaps[first:], speech[first:], strict=True)
        ]
        durations[0] = speech[first].duration  # a piece does not include the gap before it

        end = first + _count_fitting(durations, longest)
        if end < len(speech):
            end = max(range(first + 1, end + 1), key=lambda start: (ranks[start], start))
        pieces.append(_concatenate(speech[first:end], gaps[first:end]))
        first = end
    return pieces


def _gaps(speech: Sequence[SpeechOutput]) -> list[Seconds]:
    """Return the silence before each output; less than a sample counts as none."""
    intervals = [(0.0, 0.0), *playback_intervals(speech)]
    gaps = [start - previous - duration for (previous, duration), (start, _) in pairwise(intervals)]
    return [gap if gap > SHORTEST_GAP else 0.0 for gap in gaps]


def _concatenate(speech: Sequence[SpeechOutput], gaps: Sequence[Seconds]) -> Tensor:
    parts: list[Tensor] = []
    for gap, output in zip(gaps, speech, strict=True):
        parts += [torch.zeros(round(min(gap, PAUSE) * SAMPLE_RATE)), output.samples]
    return torch.cat(parts[1:])


def _rank_starts(instance: Instance, gaps: Sequence[Seconds], language: Language) -> list[int]:
    """Rank each output as the start of a piece: 2 after a gap, 1 between words, 0 in a word."""
    ranks: list[int] = []
    position = 0
    for gap, output in zip(gaps, instance.speech, strict=True):
        start = instance.text.find(output.text, position)
        begins_word = not language.separator or (
            bool(output.text)
            and start >= 0
            and not instance.text[max(start - 1, 0) : start].strip()
        )
        ranks.append((1 + (gap > 0)) * begins_word)
        position = start + len(output.text) if start >= 0 else position
    return ranks


def _count_fitting(durations: Sequence[Seconds], longest: Seconds) -> int:
    """Return how many of the first outputs fit into a piece, at least one."""
    total = 0.0
    for count, duration in enumerate(durations):
        total += duration
        if total > longest:
            return max(count, 1)
    return len(durations)
