"""Splits the target speech of a stream into pieces for speech recognition and UTMOS."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from zoo.base.languages import Language
from zoo.base.types import SAMPLE_RATE, Instance, Seconds, SpeechOutput
from zoo.metrics.speech import SHORTEST_GAP
from zoo.streaming.playback import playback_intervals

LONGEST: Seconds = 25.0  # maximum duration of a piece; the window of Whisper is 30 s
# Maximum silence between two outputs of a piece; without silence, recognisers join their words.
PAUSE: Seconds = 0.2


@dataclass(frozen=True, slots=True)
class SpeechPiece:
    """Consecutive outputs of a stream as one waveform.

    Attributes:
        samples: (n,) waveform at 16 kHz.
        outputs: Positions of the outputs in the speech of the stream.
        starts: Start of each output in the waveform.
    """

    samples: Tensor
    outputs: range
    starts: tuple[Seconds, ...]

    def locate_end(self, time: Seconds) -> tuple[int, Seconds]:
        """Return the output in which something ends, and when in it.

        What ends between two outputs, or exactly at the start of one, belongs to the one before.

        Args:
            time: Seconds from the start of the waveform.

        Returns:
            Position of the output in the speech of the stream, and seconds from its start.
        """
        place = max(bisect_left(self.starts, time) - 1, 0)
        return self.outputs[place], max(time - self.starts[place], 0.0)


def split_speech(
    instance: Instance, *, language: Language, longest: Seconds = LONGEST
) -> list[SpeechPiece]:
    """Split the target speech of a stream into pieces, with gaps shortened to ``PAUSE``.

    Each piece ends at the last suitable place: a gap in the playback, else the end of a word, else
    the end of an output. A gap inside a word does not count. An output is never split.

    Args:
        instance: Stream with target speech.
        language: Target language.
        longest: Maximum duration of a piece in seconds; a longer output is a piece of its own.
    """
    speech = instance.speech
    gaps = _gaps(speech)
    ranks = _rank_starts(instance, gaps, language)

    pieces: list[SpeechPiece] = []
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
        pieces.append(_piece(speech, gaps, range(first, end)))
        first = end
    return pieces


def _gaps(speech: Sequence[SpeechOutput]) -> list[Seconds]:
    """Return the silence before each output in seconds; 0 if it is a rounding error."""
    intervals = [(0.0, 0.0), *playback_intervals(speech)]
    gaps = [start - previous - duration for (previous, duration), (start, _) in pairwise(intervals)]
    return [gap if gap > SHORTEST_GAP else 0.0 for gap in gaps]


def _piece(speech: Sequence[SpeechOutput], gaps: Sequence[Seconds], outputs: range) -> SpeechPiece:
    """Join outputs to one waveform, with at most ``PAUSE`` seconds of silence between them."""
    parts: list[Tensor] = []
    starts: list[Seconds] = []
    length = 0
    for output in outputs:
        if parts:
            parts.append(torch.zeros(round(min(gaps[output], PAUSE) * SAMPLE_RATE)))
            length += parts[-1].numel()
        starts.append(length / SAMPLE_RATE)
        parts.append(speech[output].samples)
        length += parts[-1].numel()
    return SpeechPiece(torch.cat(parts), outputs, tuple(starts))


def _rank_starts(instance: Instance, gaps: Sequence[Seconds], language: Language) -> list[int]:
    """Rank each output as the start of a piece.

    Returns:
        2 for an output after a gap, 1 for another output that begins a word, 0 inside a word.
    """
    ranks: list[int] = []
    position = 0
    for gap, output in zip(gaps, instance.speech, strict=True):
        start = instance.text.find(output.text, position)
        if language.separator:
            found = bool(output.text) and start >= 0
            begins_word = found and not instance.text[max(start - 1, 0) : start].strip()
        else:
            begins_word = True  # without spaces, every character may begin a word
        if not begins_word:
            ranks.append(0)
        else:
            ranks.append(2 if gap > 0 else 1)
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
