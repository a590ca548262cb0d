"""Views of talks as other talks in the same audio file: sentences, and parts for training."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from zoo.base.talks import LazySegments, LazyTalks, Segment, Talk, Word
from zoo.base.types import Seconds

View = Literal["talks", "segments"]


def talks_to_stream(talks: Sequence[Talk], view: View) -> list[Talk]:
    """Return whole recordings (``talks``), or one talk per reference segment (``segments``).

    A segment whose translation is empty, as a few of MuST-C, is no talk: it cannot be scored.
    """
    if view == "talks":
        return list(talks)
    return [sentence for sentence in sentences(talks) if not has_empty_translation(sentence)]


def has_empty_translation(talk: Talk) -> bool:
    """Return whether a segment of a talk has a translation without text, in any language."""
    targets = (target for segment in talk.segments for target in segment.targets.values())
    return any(not target.text.strip() for target in targets)


def sentences(talks: Iterable[Talk]) -> list[Talk]:
    """Return every segment as a talk with one segment, which starts at 0."""
    return [
        _sentence(talk, index, segment)
        for talk in talks
        for index, segment in enumerate(talk.segments)
    ]


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive usable segments of a talk, and the time around them.

    Attributes:
        first: index of the first segment.
        last: index after the last segment.
        begin: start in seconds from the start of the talk.
        end: end in seconds from the start of the talk.
    """

    first: int
    last: int
    begin: Seconds
    end: Seconds


def usable_parts(talks: Sequence[Talk]) -> Sequence[Talk]:
    """Return the parts of talks between the segments that are not usable, as talks.

    A training on the parts neither contains the audio of these segments nor treats it as silence. A
    talk without such segments is returned unchanged. Parts without segments are left out.
    """
    if isinstance(talks, LazyTalks):
        return talks
    return [part for talk in talks for part in _usable(talk)]


def decoded_segments(talks: Iterable[Talk]) -> Iterator[Segment]:
    """Yield the segments of all talks but those that are decoded when they are needed."""
    for talk in talks:
        if not isinstance(talk.segments, LazySegments):
            yield from talk.segments


def is_usable(talk: Talk) -> bool:
    """Return whether all segments of a talk are usable."""
    return all(segment.usable for segment in talk.segments)


def parts(talk: Talk) -> Iterator[Part]:
    """Yield the parts of a talk between the segments that are not usable."""
    segments = talk.segments
    first = 0  # segment of the current part
    begin = 0.0  # start of the current part
    for index, segment in enumerate(segments):
        if segment.usable:
            continue
        if index > first:
            yield _bounded(segments, Part(first, index, begin, segment.offset))
        first = index + 1
        begin = max(begin, segment.end)
    if len(segments) > first:
        yield _bounded(segments, Part(first, len(segments), begin, talk.duration))


def part_of(talk: Talk, part: Part) -> Talk:
    """Return a part of a talk as a talk; its segments stay whole."""
    begin, end = part.begin, part.end
    return replace(
        talk,
        name=f"{talk.name}-{begin:.2f}s",
        offset=talk.offset + begin,
        duration=end - begin,
        segments=tuple(move_segment(one, begin) for one in talk.segments[part.first : part.last]),
        labels={name: _shifted(words, begin=begin, end=end) for name, words in talk.labels.items()},
    )


def move_segment(segment: Segment, begin: Seconds) -> Segment:
    """Return a segment with times from ``begin`` on, rounded to milliseconds."""
    return replace(
        segment,
        offset=round(segment.offset - begin, 3),
        words=tuple(
            Word(word.text, round(word.start - begin, 3), round(word.end - begin, 3))
            for word in segment.words
        ),
    )


def _usable(talk: Talk) -> list[Talk]:
    """Return the usable parts of a talk."""
    return [talk] if is_usable(talk) else [part_of(talk, part) for part in parts(talk)]


def _bounded(segments: Sequence[Segment], part: Part) -> Part:
    """Return a part that contains its segments as a whole."""
    inside = segments[part.first : part.last]
    return replace(
        part,
        begin=min(part.begin, inside[0].offset),
        end=max(part.end, *(segment.end for segment in inside)),
    )


def _sentence(talk: Talk, index: int, segment: Segment) -> Talk:
    """Return segment number ``index`` of a talk as a talk."""
    begin, end = segment.offset, segment.end
    return replace(
        talk,
        name=f"{talk.name}-{index:04d}",
        offset=talk.offset + begin,
        duration=segment.duration,
        excerpt=True,
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
