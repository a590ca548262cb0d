"""Talks, segments and words: the data model that all corpora share."""

from dataclasses import dataclass, field
from pathlib import Path

from zoo.errors import ZooError
from zoo.types import Seconds


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word with its start and end in seconds from the start of the talk."""

    text: str
    start: Seconds
    end: Seconds


@dataclass(frozen=True, slots=True)
class Target:
    """One translation of a segment.

    Attributes:
        text: the translation.
        words: ``text`` split into alignable units (words; characters for zh); the language's rule
            joins them to ``text`` again.
        alignment: per word, indices of the source words that it translates (empty: unaligned).
        needs: per word, indices of the source words that determine it, possibly more than
            necessary (empty where unknown).
    """

    text: str
    words: tuple[str, ...] = ()
    alignment: tuple[tuple[int, ...], ...] = ()
    needs: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a talk, usually a sentence.

    Attributes:
        offset: seconds from the start of the talk.
        duration: seconds.
        source: transcript.
        words: source words with times.
        targets: translation by language code.
    """

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
    """One recording with its segments.

    Attributes:
        name: unique name in the corpus.
        audio: audio file, or None for talks with references only (recorded logs).
        duration: seconds.
        source_language: code.
        segments: segments in order of time.
        offset: start of the talk in ``audio`` in seconds (sentence-level views have many talks in
            one file).
        voice: name of the speaker.
        labels: further labels by name, such as ``phonemes``, as words with times.
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
