"""Sentence-level views: one talk per segment, in the same audio file."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zoo.data.talks import Segment, Talk, Word
from zoo.types import Seconds


def sentences(talks: Iterable[Talk]) -> list[Talk]:
    """Return every segment as a talk with one segment, which starts at 0."""
    return [
        _sentence(talk, index, segment)
        for talk in talks
        for index, segment in enumerate(talk.segments)
    ]


def _sentence(talk: Talk, index: int, segment: Segment) -> Talk:
    """Return segment number ``index`` of a talk as a talk."""
    begin, end = segment.offset, segment.end
    return replace(
        talk,
        name=f"{talk.name}-{index:04d}",
        offset=talk.offset + begin,
        duration=segment.duration,
        segments=(
            replace(segment, offset=0.0, words=_shifted(segment.words, begin=begin, end=end)),
        ),
        labels={name: _shifted(words, begin=begin, end=end) for name, words in talk.labels.items()},
    )


def _shifted(words: Sequence[Word], *, begin: Seconds, end: Seconds) -> tuple[Word, ...]:
    """Return the words that start in [begin, end), with times from ``begin`` on.

    Times are rounded to milliseconds.
    """
    return tuple(
        Word(word.text, round(word.start - begin, 3), round(min(word.end, end) - begin, 3))
        for word in words
        if begin <= word.start < end
    )
