"""References synthesised by espeak-ng: clean speech that measures a recogniser's own error rate."""

from pathlib import Path

import torch
from torch import Tensor

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.talks import Talk
from zoo.data.clips import ClipConfig
from zoo.data.utterances import SpokenLine, read_utterances
from zoo.synthesizers.espeak import VOICES


def clean_speech(talk: Talk, target: Language, *, cache: Path | None = None) -> list[Tensor]:
    """Synthesise the reference of every segment with the default settings of training clips.

    Args:
        talk: the talk with the references.
        target: language of the references; espeak-ng uses the default voice of that language.
        cache: cache folder of the waveforms; None: the default cache.

    Returns:
        One (samples,) waveform at 16 kHz per segment; empty if its reference has no letter or
        digit.

    Raises:
        ZooError: a segment has no reference in ``target``, or espeak-ng lacks the language.
    """
    for segment in talk.segments:
        if target.code not in segment.targets:
            raise ZooError(f"Talk {talk.name!r} has no {target.name} references to synthesise.")
    texts = [segment.targets[target.code].text for segment in talk.segments]
    waves = [torch.zeros(0)] * len(texts)

    pronounceable = [index for index, text in enumerate(texts) if any(map(str.isalnum, text))]
    if pronounceable:
        lines = [clean_line(texts[index], target) for index in pronounceable]
        utterances = read_utterances(lines, cache=cache)
        for position, index in enumerate(pronounceable):
            waves[index] = torch.from_numpy(utterances.speech(position))
    return waves


def clean_line(text: str, target: Language) -> SpokenLine:
    """Return the espeak-ng request for a text: the default rate, pitch and voice of clips."""
    clip = ClipConfig()
    return SpokenLine(
        words=tuple(text.split()),
        voice=VOICES.get(target.code, target.code),
        rate=clip.rates[0],
        pitch=clip.pitches[0],
        pitch_range=clip.ranges[0],
        seed=0,
    )
