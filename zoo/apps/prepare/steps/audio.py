"""Audio: every file is read to its end, and written as 16 kHz mono where it is something else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Literal

from torch import Tensor

from zoo.apps.prepare.items import Item
from zoo.apps.prepare.steps.base import PlainStep
from zoo.base.audio import files as audio
from zoo.base.disk.files import atomic_file
from zoo.base.disk.tar_members import archive_of
from zoo.base.errors import ZooError, check_choice
from zoo.base.talks import Talk, Word
from zoo.base.types import SAMPLE_RATE, Seconds

# Seconds by which a talk or a segment may end after its audio, because a corpus has rounded times;
# it is cut at the end of its audio.
OVERHANG: Seconds = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class AudioSettings:
    """What the audio step does.

    Attributes:
        damaged: what happens to a talk whose audio cannot be used. ``refuse``: the preparation ends
            with an error when all files have been read. ``drop``: the talk is left out, and the
            card has the reason.
        copy: ``needed`` writes the audio of a talk as 16-bit WAV with 16 kHz and one channel if it
            is not the whole of such a file; ``always`` also copies those that are.

    Raises:
        ZooError: a value is unknown.
    """

    damaged: Literal["refuse", "drop"] = "refuse"
    copy: Literal["needed", "always"] = "needed"

    def __post_init__(self) -> None:
        check_choice("audio.damaged", self.damaged, ("refuse", "drop"))
        check_choice("audio.copy", self.copy, ("needed", "always"))


class AudioStep(PlainStep):
    """Reads and copies the audio of talks.

    Args:
        settings: what to do.
        folder: folder of the copies, which is created.
    """

    name = "audio"

    def __init__(self, settings: AudioSettings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Item:
        """Return an item whose talk has clean audio, or a problem."""
        try:
            talk = self._checked(item.talk)
        except ZooError as error:
            return Item(replace(item.talk, segments=(), labels={}), (), problem=str(error))
        return replace(item, talk=talk)

    def _checked(self, talk: Talk) -> Talk:
        """Return the talk with its audio. Raises ZooError if the audio cannot be used."""
        samples = audio.load(talk.file, start=talk.offset, duration=talk.duration + OVERHANG)
        length = len(samples) / SAMPLE_RATE
        if not samples.any():
            raise ZooError(
                f"Talk {talk.name!r} has no sound: all samples of {talk.file} from "
                f"{talk.offset:.2f} s on are 0."
            )
        if talk.duration > length + OVERHANG:
            raise ZooError(
                f"Talk {talk.name!r} lasts {talk.duration:.2f} s, but {talk.file} has only "
                f"{length:.2f} s of it."
            )
        talk = _cut(talk, min(talk.duration, length))
        if self.settings.copy == "needed" and _is_plain(talk):
            return talk
        return replace(talk, audio=self._written(talk, samples), offset=0.0)

    def _written(self, talk: Talk, samples: Tensor) -> Path:
        """Write the samples of a talk and return the path of the file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = talk.name.replace("%", "%25").replace("/", "%2F")
        path = self.folder / f"{name}.wav"
        with atomic_file(path) as temporary:
            audio.write(temporary, samples[: round(talk.duration * SAMPLE_RATE)])
        return path


def _cut(talk: Talk, duration: Seconds) -> Talk:
    """Return a talk of a duration, with the last segment cut at its end.

    Raises:
        ZooError: a segment does not lie in the talk.
    """
    segments = []
    for number, segment in enumerate(talk.segments):
        inside = 0 <= segment.offset < duration and segment.duration > 0
        if not (isfinite(segment.end) and inside and segment.end <= duration + OVERHANG):
            raise ZooError(
                f"Segment {number} of talk {talk.name!r} lasts from {segment.offset:.2f} to "
                f"{segment.end:.2f} s, but the talk has {duration:.2f} s of audio ({talk.file})."
            )
        length = min(segment.duration, duration - segment.offset)
        words = _clipped(segment.words, duration)
        segments.append(replace(segment, duration=length, words=words))
    labels = {name: _clipped(words, duration) for name, words in talk.labels.items()}
    return replace(talk, duration=duration, segments=tuple(segments), labels=labels)


def _clipped(words: Sequence[Word], end: Seconds) -> tuple[Word, ...]:
    """Return words that end at ``end`` at the latest."""
    return tuple(Word(word.text, min(word.start, end), min(word.end, end)) for word in words)


def _is_plain(talk: Talk) -> bool:
    """Return whether the talk is the whole of a file with 16 kHz and one channel."""
    if archive_of(talk.file) or talk.offset or not audio.is_plain(talk.file):
        return False
    return abs(talk.duration - audio.duration(talk.file)) < OVERHANG
