"""Trajectories: which target words follow which chunk of speech (InfiniSST, section 3.3). Knows no tokenizer."""

from collections.abc import Sequence

from zoo.data.talks import Segment
from zoo.errors import ZooError
from zoo.types import Seconds


def emission_times(segment: Segment, target: str) -> list[tuple[str, Seconds]]:
    """When each target word may be written: the end (seconds in the talk) of the latest source word it is aligned to.

    Monotone by a running maximum; an unaligned word goes with the next aligned one, a trailing one with the last.
    Raises ZooError when the segment has no word times or no translation into ``target``.
    """
    if target not in segment.targets:
        raise ZooError(
            f"No {target!r} translation for {segment.source!r}; it has: {', '.join(segment.targets)}."
        )
    translation = segment.targets[target]
    unaligned = len(translation.alignment) != len(translation.words) or bool(
        translation.text and not translation.words
    )
    if unaligned or not segment.words:
        raise ZooError(
            f"Segment {segment.source!r} lacks word times or a word alignment; align the corpus first."
        )
    latest = [
        max((segment.words[i].end for i in sources), default=None)
        for sources in translation.alignment
    ]
    following: Seconds | None = None
    for index in reversed(range(len(latest))):
        following = latest[index] = latest[index] if latest[index] is not None else following
    reached = segment.words[0].end
    times: list[tuple[str, Seconds]] = []
    for word, time in zip(translation.words, latest, strict=True):
        reached = max(reached, time if time is not None else segment.words[-1].end)
        times.append((word, reached))
    return times


def chunked_words(
    segments: Sequence[Segment], target: str, *, start: Seconds, chunks: int, chunk_seconds: Seconds
) -> list[list[str]]:
    """Words per chunk of a stretch that begins at ``start`` (seconds in the talk); empty lists are turns that read.

    A word belongs to the chunk in which its last aligned source word ends.
    """
    turns: list[list[str]] = [[] for _ in range(chunks)]
    for segment in segments:
        for word, time in emission_times(segment, target):
            chunk = int((time - start) / chunk_seconds)
            if time >= start and chunk < chunks:
                turns[chunk].append(word)
    return turns


def merged(turns: Sequence[Sequence[str]], multiplier: int) -> list[list[str]]:
    """Multi-latency augmentation: every ``multiplier`` turns become one."""
    return [
        [word for turn in turns[first : first + multiplier] for word in turn]
        for first in range(0, len(turns), multiplier)
    ]
