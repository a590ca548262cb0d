"""Talks, segments and words: the one manifest that built-in and real corpora share. Knows no audio and no network."""

from dataclasses import dataclass, field
from pathlib import Path

from zoo.errors import ZooError
from zoo.types import Seconds


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken source word with its time in its talk (seconds)."""

    text: str
    start: Seconds
    end: Seconds


@dataclass(frozen=True, slots=True)
class Target:
    """One translation of a segment.

    text: as a person writes it. words: ``text`` split into alignable units (words; characters for zh), so that joining
    them by the language's rule gives ``text`` back. alignment: per word the indices of the source words it translates
    (empty: unaligned). needs: per word the source words that must be heard to know it (a superset; empty when unknown).
    """

    text: str
    words: tuple[str, ...] = ()
    alignment: tuple[tuple[int, ...], ...] = ()
    needs: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a talk (seconds) with its transcript, word times and translations by language code."""

    offset: Seconds
    duration: Seconds
    source: str
    words: tuple[Word, ...] = ()
    targets: dict[str, Target] = field(default_factory=dict)

    @property
    def end(self) -> Seconds:
        """Seconds from the start of the talk."""
        return self.offset + self.duration


@dataclass(frozen=True, slots=True)
class Talk:
    """One recording: its audio file, its length and its segments in order of time.

    audio: None where only the references are at hand (recorded logs).
    offset: seconds into ``audio`` at which this talk begins (sentence-level views cut one file into many talks).
    labels: further supervision by name, e.g. ``phonemes`` as words with times.
    """

    name: str
    audio: Path | None
    duration: Seconds
    source_language: str
    segments: tuple[Segment, ...]
    offset: Seconds = 0.0
    voice: str = ""
    labels: dict[str, tuple[Word, ...]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The audio file. Raises ZooError for a talk that has none."""
        if self.audio is None:
            raise ZooError(
                f"Talk {self.name!r} has no audio; data=recorded goes with system=replay only."
            )
        return self.audio
