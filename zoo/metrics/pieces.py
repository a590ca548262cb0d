"""The target speech of a stream in pieces that can be listened to. Knows no recogniser and no score."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from zoo.languages import Language
from zoo.metrics.speech import SHORTEST_GAP
from zoo.streaming.playback import playback_intervals
from zoo.types import SAMPLE_RATE, Instance, Seconds, SpeechOutput

LONGEST: Seconds = 25.0  # of a piece; Whisper's window is 30 s
PAUSE: Seconds = (
    0.2  # so much of a gap is heard: without it, words that were said apart run together
)


def split_speech(
    instance: Instance, *, language: Language, longest: Seconds = LONGEST
) -> list[Tensor]:
    """(n,) waveforms at 16 kHz that together are the speech of a stream, with ``PAUSE`` at most of each gap.

    A piece is at most ``longest`` seconds, and ends at the last place that will do: at a gap in the playing, else
    between two words, else between two stretches. A gap inside a word is none. A stretch is never cut, so it may be
    longer.
    """
    speech = instance.speech
    gaps = _gaps(speech)
    places = _places(instance, gaps, language)
    result: list[Tensor] = []
    first = 0
    while first < len(speech):
        lengths = [
            min(gap, PAUSE) + spoken.duration
            for gap, spoken in zip(gaps[first:], speech[first:], strict=True)
        ]
        lengths[0] = speech[first].duration  # the silence before a piece is not in it
        end = first + _fitting(lengths, longest)
        if end < len(speech):
            end = max(range(first + 1, end + 1), key=lambda place: (places[place], place))
        result.append(_joined(speech[first:end], gaps[first:end]))
        first = end
    return result


def _gaps(speech: Sequence[SpeechOutput]) -> list[Seconds]:
    """Silence before each stretch; what is less than a sample is none."""
    sounds = [(0.0, 0.0), *playback_intervals(speech)]
    silences = [start - before - length for (before, length), (start, _) in pairwise(sounds)]
    return [silence if silence > SHORTEST_GAP else 0.0 for silence in silences]


def _joined(speech: Sequence[SpeechOutput], gaps: Sequence[Seconds]) -> Tensor:
    parts: list[Tensor] = []
    for gap, spoken in zip(gaps, speech, strict=True):
        parts += [torch.zeros(round(min(gap, PAUSE) * SAMPLE_RATE)), spoken.samples]
    return torch.cat(parts[1:])


def _places(instance: Instance, gaps: Sequence[Seconds], language: Language) -> list[int]:
    """How good it is to begin a piece at each stretch: 2 after a gap, 1 between words, 0 inside a word."""
    places: list[int] = []
    position = 0
    for gap, spoken in zip(gaps, instance.speech, strict=True):
        begin = instance.text.find(spoken.text, position)
        parted = not language.separator or (
            bool(spoken.text)
            and begin >= 0
            and not instance.text[max(begin - 1, 0) : begin].strip()
        )
        places.append((1 + (gap > 0)) * parted)
        position = begin + len(spoken.text) if begin >= 0 else position
    return places


def _fitting(durations: Sequence[Seconds], longest: Seconds) -> int:
    """How many of the first stretches fit into a piece; at least one."""
    total = 0.0
    for number, duration in enumerate(durations):
        total += duration
        if total > longest:
            return max(number, 1)
    return len(durations)
