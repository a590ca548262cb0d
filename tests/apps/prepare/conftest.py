"""A small corpus whose preparation has something to do in every step."""

import math
from pathlib import Path

import pytest
import soundfile
import torch

from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data import manifest

RATE = 8000  # of the audio files, which have two channels


def segment(offset: float, source: str = "Good cats sleep.", target: str = "Gute Katzen schlafen."):
    """A segment of 1.5 s whose words last 0.5 s each and are translated one by one."""
    words = tuple(
        Word(word.strip(".,").lower(), offset + 0.5 * place, offset + 0.5 * (place + 1))
        for place, word in enumerate(source.split())
    )
    units = tuple(target.split())
    alignment = tuple((place,) for place in range(len(units)))
    return Segment(offset, 1.5, source, words, {"de": Target(target, units, alignment)})


def write_audio(path: Path, seconds: float) -> None:
    tone = 0.1 * torch.sin(torch.arange(round(seconds * RATE)) * 440 * 2 * math.pi / RATE)
    soundfile.write(path, torch.stack([tone, 0.5 * tone], dim=1).numpy(), RATE)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder for data=aligned with four talks of 6 s in the split ``train``."""
    return write_corpus(tmp_path / "corpus")


def write_corpus(folder: Path) -> Path:
    """Write the talks of ``corpus``."""
    folder.mkdir()
    talks = []
    for number in range(4):
        path = folder / f"talk-{number}.wav"
        write_audio(path, 6.0)
        laughter = Segment(2.0, 0.5, "(Laughter)", (), {"de": Target("(Gelächter)")})
        segments = (segment(0.25), laughter, segment(3.0, "One, two.", "Eins, zwei."))
        talks.append(Talk(f"talk/{number}", path, 6.0, "en", segments))
    manifest.write(folder / "train.jsonl", talks)
    return folder
