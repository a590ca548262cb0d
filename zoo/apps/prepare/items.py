"""A talk in preparation, and its form on disk."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zoo.base.disk.parsing import parse_json
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import Seconds
from zoo.data import manifest

DIGITS = 6  # digits of times in seconds; a sample of 16 kHz lasts 62.5 microseconds


@dataclass(frozen=True, slots=True)
class Notes:
    """What the steps have found out about a segment.

    Attributes:
        reason: why trainings cannot use the segment, such as "word times"; empty if they can.
        detail: explanation of the reason; may be empty.
        scores: numbers by name, such as the score of an aligner.
        recognised: what a recogniser has made of the audio; empty without one.
    """

    reason: str = ""
    detail: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    recognised: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A talk in preparation.

    Attributes:
        talk: the talk, as the steps so far have made it.
        notes: notes of each segment.
        problem: why the whole talk is left out; empty if it is not.
    """

    talk: Talk
    notes: tuple[Notes, ...]
    problem: str = ""

    @property
    def usable(self) -> tuple[bool, ...]:
        """Whether trainings can use each segment."""
        return tuple(not note.reason for note in self.notes)

    def with_segments(
        self, segments: Mapping[int, Segment], notes: Mapping[int, Notes] | None = None
    ) -> "Item":
        """Return the item with other segments and notes at some indices."""
        changed = tuple(
            segments.get(index, segment) for index, segment in enumerate(self.talk.segments)
        )
        new_notes = tuple((notes or {}).get(index, note) for index, note in enumerate(self.notes))
        return replace(self, talk=replace(self.talk, segments=changed), notes=new_notes)

    def finished(self) -> Talk:
        """Return the talk with rounded times; segments with a reason are not usable."""
        pairs = zip(self.talk.segments, self.usable, strict=True)
        segments = tuple(
            replace(
                segment,
                offset=_rounded(segment.offset),
                duration=_rounded(segment.duration),
                words=_with_rounded_times(segment.words),
                usable=usable,
            )
            for segment, usable in pairs
        )
        return replace(
            self.talk,
            offset=_rounded(self.talk.offset),
            duration=_rounded(self.talk.duration),
            segments=segments,
            labels={name: _with_rounded_times(words) for name, words in self.talk.labels.items()},
        )


def _rounded(time: Seconds) -> Seconds:
    """Return a time without the digits that only come from arithmetic."""
    return round(time, DIGITS)


def _with_rounded_times(words: Sequence[Word]) -> tuple[Word, ...]:
    return tuple(Word(word.text, _rounded(word.start), _rounded(word.end)) for word in words)


def new_item(talk: Talk) -> Item:
    """Return an item of a talk as the corpus has it."""
    notes = (Notes() if one.usable else Notes("corpus") for one in talk.segments)
    return Item(talk, tuple(notes))


def encode(item: Item, *, folder: Path) -> str:
    """Return an item as one line without its end; the audio path is relative to ``folder``."""
    value = {
        "talk": json.loads(manifest.encode(item.talk, folder=folder)),
        "notes": [
            [note.reason, note.detail, dict(note.scores), note.recognised] for note in item.notes
        ],
        "problem": item.problem,
    }
    return json.dumps(value, ensure_ascii=False)


def decode(line: str, *, folder: Path) -> Item:
    """Return the item of a line that ``encode`` has written. Another line raises ValueError."""
    value: dict[str, Any] = parse_json(line)
    talk = manifest.decode(json.dumps(value["talk"]), folder=folder)
    return Item(talk, tuple(Notes(*note) for note in value["notes"]), value["problem"])
