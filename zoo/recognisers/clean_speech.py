"""References spoken by espeak-ng: what a recogniser should understand in full. Knows no recogniser and no score."""

from pathlib import Path

import torch
from torch import Tensor

from zoo.data.clips import ClipConfig
from zoo.data.talks import Talk
from zoo.data.utterances import Line, spoken
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.synthesizers.espeak import VOICES


def clean_speech(talk: Talk, target: Language, *, cache: Path | None = None) -> list[Tensor]:
    """(n,) samples at 16 kHz of each segment's reference, in order; (0,) where it has nothing that could be said.

    Spoken as clips are by default, in the language's own voice, and kept in the cache folder. Raises ZooError for a
    talk without references, and for a language that espeak-ng does not speak.
    """
    for segment in talk.segments:
        if target.code not in segment.targets:
            raise ZooError(f"Talk {talk.name!r} has no {target.name} references to speak.")
    texts = [segment.targets[target.code].text for segment in talk.segments]
    audible = [place for place, text in enumerate(texts) if any(map(str.isalnum, text))]
    utterances = (
        spoken([line(texts[place], target) for place in audible], cache=cache) if audible else None
    )
    waves = [torch.zeros(0)] * len(texts)
    for index, place in enumerate(audible):
        assert utterances is not None
        waves[place] = torch.from_numpy(utterances.speech(index))
    return waves


def line(text: str, target: Language) -> Line:
    """How a text is spoken."""
    voice = ClipConfig()
    return Line(
        words=tuple(text.split()),
        voice=VOICES.get(target.code, target.code),
        rate=voice.rates[0],
        pitch=voice.pitches[0],
        pitch_range=voice.ranges[0],
        seed=0,
    )
