"""The target speech of a stream in pieces that can be listened to. Knows no recogniser and no score."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from zoo.languages import Language
from zoo.metrics.speech import SHORTEST_GAP
from zoo.streaming.playback import intervals
from zoo.types import Instance, Seconds

LONGEST: Seconds = 25.0  # of a piece; Whisper's window is 30 s


def pieces(instance: Instance, *, language: Language, longest: Seconds = LONGEST) -> list[Tensor]:
    """(n,) waveforms at 16 kHz that together are the speech of a stream, without the silence of its gaps.

    A piece is at most ``longest`` seconds, and ends at the last place that will do: at a gap in the playing, else
    between two words, else between two stretches. A gap inside a word is none. A stretch is never cut, so it may be
    longer.
    """
    speech = instance.speech
    places = _places(instance, language)
    result: list[Tensor] = []
    first = 0
    while first < len(speech):
        end = first + _fitting([spoken.duration for spoken in speech[first:]], longest)
        if end < len(speech):
            end = max(range(first + 1, end + 1), key=lambda place: (places[place], place))
        result.append(torch.cat([spoken.samples for spoken in speech[first:end]]))
        first = end
    return result


def _places(instance: Instance, language: Language) -> list[int]:
    """How good it is to begin a piece at each stretch: 2 after a gap, 1 between words, 0 inside a word."""
    sounds = [(0.0, 0.0), *intervals(instance.speech)]
    places: list[int] = []
    position = 0
    for ((before, length), (start, _)), spoken in zip(pairwise(sounds), instance.speech, strict=True):
        begin = instance.text.find(spoken.text, position)
        parted = not language.separator or (
            bool(spoken.text) and begin >= 0 and not instance.text[max(begin - 1, 0) : begin].strip()
        )
        places.append((1 + (start - before - length > SHORTEST_GAP)) * parted)
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
