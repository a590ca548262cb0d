"""Views of talks as other talks in the same audio file: sentences, and parts for training."""

from collections.abc import Iterable, Iterator, Sequence
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


def usable_parts(talks: Iterable[Talk]) -> list[Talk]:
    """Return the parts of talks between the segments that are not usable, as talks.

    A training on the parts neither contains the audio of these segments nor treats it as silence. A
    talk without such segments is returned unchanged. Parts without segments are left out.
    """
    return [part for talk in talks for part in _parts(talk)]


def _parts(talk: Talk) -> Iterator[Talk]:
    """Yield the usable parts of a talk."""
    if all(segment.usable for segment in talk.segments):
        yield talk
        return

    kept: list[Segment] = []  # segments of the current part
    begin = 0.0  # start of the current part
    for segment in talk.segments:
        if segment.usable:
            kept.append(segment)
            continue
        if kept:
            yield _part(talk, kept, begin, segment.offset)
        kept = []
        begin = max(begin, segment.end)
    if kept:
        yield _part(talk, kept, begin, talk.duration)


def _part(talk: Talk, segments: Sequence[Segment], begin: Seconds, end: Seconds) -> Talk:
    """Return the part of a talk from ``begin`` to ``end`` as a talk; its segments stay whole."""
    begin = min(begin, segments[0].offset)
    end = max(end, *(segment.end for segment in segments))
    moved = [
        replace(
            segment,
            offset=round(segment.offset - begin, 3),
            words=tuple(
                Word(word.text, round(word.start - begin, 3), round(word.end - begin, 3))
                for word in segment.words
            ),
        )
        for segment in segments
    ]
    return replace(
        talk,
        name=f"{talk.name}-{begin:.2f}s",
        offset=talk.offset + begin,
        duration=end - begin,
        segments=tuple(moved),
        labels={name: _shifted(words, begin=begin, end=end) for name, words in talk.labels.items()},
    )


def _sentence(talk: Talk, index: int, segment: Segment) -> Talk:
    """Return segment number ``index`` of a talk as a talk."""
    begin, end = segment.offset, segment.end
    return replace(
        talk,
        name=f"{talk.name}-{index:04d}",
        offset=talk.offset + begin,
        duration=segment.duration,
        segments=(replace(segment, offset=0.0, words=_clipped(segment, begin=begin, end=end)),),
        labels={name: _shifted(words, begin=begin, end=end) for name, words in talk.labels.items()},
    )


def _clipped(segment: Segment, *, begin: Seconds, end: Seconds) -> tuple[Word, ...]:
    """Return all words of a segment, because alignments count them, with times from ``begin`` on.

    A word before ``begin`` or after ``end`` has the duration 0 there. Times are rounded to
    milliseconds.
    """

    def clip(time: Seconds) -> Seconds:
        return round(min(max(time, begin), end) - begin, 3)

    return tuple(Word(word.text, clip(word.start), clip(word.end)) for word in segment.words)


def _shifted(words: Sequence[Word], *, begin: Seconds, end: Seconds) -> tuple[Word, ...]:
    """Return the words that start in [begin, end), with times from ``begin`` on.

    Times are rounded to milliseconds.
    """
    return tuple(
        Word(word.text, round(word.start - begin, 3), round(min(word.end, end) - begin, 3))
        for word in words
        if begin <= word.start < end
    )
