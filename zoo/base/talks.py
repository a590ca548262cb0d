"""Talks, segments and words: the data model that all corpora share."""

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar, overload

from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Samples, Seconds

Item = TypeVar("Item", covariant=True)
# Signs that end a line, change its direction, or control a terminal.
HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class LazySequence(Sequence[Item]):
    """A sequence that makes an item each time it is asked for."""

    @abstractmethod
    def item(self, index: int) -> Item:
        """Make one item.

        Args:
            index: place of the item, from 0 to one less than the number of items.
        """

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        """Make an item, or a list of several."""
        places = range(len(self))[index]  # raises IndexError, which ends an iteration
        return self.item(places) if isinstance(places, int) else [self.item(one) for one in places]


def check_talk_name(name: str, where: str) -> None:
    """Raise ZooError for a name that no log in UTF-8 can hold, or that would control a terminal.

    Args:
        name: name of a talk.
        where: what has the name, for the message.
    """
    if HIDDEN.search(name) or name != name.encode(errors="ignore").decode():
        raise ZooError(
            f"{where!a} has a name that is not UTF-8 or has control characters; rename it."
        )


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word.

    Attributes:
        text: the word.
        start: start of the word in seconds from the start of the talk.
        end: end of the word in seconds from the start of the talk.
    """

    text: str
    start: Seconds
    end: Seconds


@dataclass(frozen=True, slots=True)
class Target:
    """One translation of a segment.

    Attributes:
        text: the translation.
        words: ``text`` split into the units of its language (words, or characters for example in
            Chinese), which ``Language.join`` joins to ``text`` again.
        alignment: for each of ``words``, the indices of the source words that it translates; empty
            for an unaligned word.
        needs: for each of ``words``, the indices of the source words without which it cannot be
            determined. The indices may include words that are not necessary. Empty if unknown.
        prefixes: translations of the first word of the transcript, of its first two words and so
            on, without the whole transcript; empty if there are none.
        original: translation of the corpus that ``text`` has replaced; None if ``text`` is it.
    """

    text: str
    words: tuple[str, ...] = ()
    alignment: tuple[tuple[int, ...], ...] = ()
    needs: tuple[tuple[int, ...], ...] = ()
    prefixes: tuple[str, ...] = ()
    original: str | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a talk, usually a sentence.

    Attributes:
        offset: start of the segment in seconds from the start of the talk.
        duration: duration of the segment in seconds.
        source: transcript.
        words: source words with times.
        targets: translations by language code.
        usable: whether trainings use the segment. They leave out the audio of other segments, such
            as applause or speech that an aligner could not align; evaluations stream it.
    """

    offset: Seconds
    duration: Seconds
    source: str
    words: tuple[Word, ...] = ()
    targets: dict[str, Target] = field(default_factory=dict)
    usable: bool = True

    @property
    def end(self) -> Seconds:
        """End of the segment in seconds from the start of the talk."""
        return self.offset + self.duration


class Named(Protocol):
    """Something with a name, under which logs and reports list it."""

    @property
    def name(self) -> str:
        """The name."""


N = TypeVar("N", bound=Named)


def of_one_name(items: Iterable[N]) -> tuple[N, N] | None:
    """Return the first item whose name an earlier one has, after the earlier one; None: no item.

    Args:
        items: items whose names must be unique.
    """
    first: dict[str, N] = {}
    for item in items:
        if item.name in first:
            return first[item.name], item
        first[item.name] = item
    return None


class LazySegments(LazySequence[Segment]):
    """Segments of a talk that are decoded when they are needed.

    Attributes:
        outline: for each segment, one with its times only: the first of its ``words`` has no text,
            and there are no others.
    """

    outline: Sequence[Segment]


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a mixture of corpora (``zoo.data.mixture``): its direction and amount of audio.

    Attributes:
        name: name of the share in the mixture.
        target_language: code of the language into which trainings translate the talks.
        hours: hours of audio in a pass, by kind of example.
    """

    name: str
    target_language: str
    hours: Mapping[str, float]

    def talk(self, talk: "Talk") -> "Talk":
        """Return a talk of the share, whose name begins with that of the share."""
        return replace(talk, name=f"{self.name}-{talk.name}", share=self)


@dataclass(frozen=True, slots=True)
class Talk:
    """One recording with its segments.

    Attributes:
        name: unique name in the corpus.
        audio: audio file, or None for talks with references only (recorded logs).
        duration: duration of the talk in seconds.
        source_language: code of the source language.
        segments: segments in order of time.
        offset: start of the talk in ``audio``, in seconds. If each segment is a talk of its own,
            many talks are in one file.
        voice: name of the speaker.
        labels: further labels by name, such as ``phonemes``, as words with times.
        excerpt: whether it is one segment of a longer recording, without the audio around it.
        share: share of a mixture that the talk belongs to; None outside of mixtures, where all
            talks have the direction of the system.
    """

    name: str
    audio: Path | None
    duration: Seconds
    source_language: str
    segments: Sequence[Segment]
    offset: Seconds = 0.0
    voice: str = ""
    labels: dict[str, tuple[Word, ...]] = field(default_factory=dict)
    excerpt: bool = False
    share: Share | None = None

    def __repr__(self) -> str:
        number = len(self.segments)
        segments = f"{number} segment{'' if number == 1 else 's'}"
        audio = "no audio" if self.audio is None else str(self.audio)
        return (
            f"Talk({self.name!r}, {self.source_language}, {self.duration:.1f} s, {segments}, "
            f"{audio})"
        )

    def target_language(self, default: str) -> str:
        """Return the code of the language into which a training translates the talk.

        Args:
            default: target language of the system, for a talk outside of mixtures.
        """
        return default if self.share is None else self.share.target_language

    @property
    def outline(self) -> Sequence[Segment]:
        """The segments, of which only the times and those of the first word may be read.

        Reading them decodes no segment.
        """
        return self.segments.outline if isinstance(self.segments, LazySegments) else self.segments

    @property
    def file(self) -> Path:
        """The audio file. Raises ZooError for a talk without audio."""
        if self.audio is None:
            raise ZooError(f"Talk {self.name!r} has no audio; data=recorded needs system=replay.")
        return self.audio


def without_references(
    name: str, file: Path | None, duration: Seconds, source_language: str
) -> Talk:
    """Return a talk without references; it is one segment.

    Args:
        name: name of the talk.
        file: audio file, if there is one.
        duration: duration in seconds.
        source_language: code of the language that is spoken.
    """
    return Talk(name, file, duration, source_language, (Segment(0.0, duration, ""),))


def blocks_of(talk: Talk, block: Samples) -> int:
    """Return the number of blocks of ``block`` samples in a talk; the last may be padded."""
    return max(1, -(-round(talk.duration * SAMPLE_RATE) // block))


class LazyTalks(LazySequence[Talk]):
    """Training talks that are decoded when they are needed; all their segments are usable.

    Attributes:
        content_hash: hash of all talks, as ``zoo.data.fingerprint.content_hash`` computes it; for a
            mixture, hash of the names of its shares and of their hashes.
        hours: duration of all talks in hours.
        decoded: those talks that are in memory all the same, with all their segments; they are
            checked like the talks of a corpus that is not lazy.
    """

    content_hash: str
    hours: float
    decoded: Sequence[Talk] = ()

    @abstractmethod
    def check(self, *, source: str, target: str) -> None:
        """Check the talks that are not in memory.

        Raises ZooError if one is in another language or a segment lacks a translation. The talks of
        a mixture have languages of their own.

        Args:
            source: code of the source language.
            target: code of the target language.
        """
