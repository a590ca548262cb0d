"""Trajectories: the target words to emit after each chunk of speech (InfiniSST, section 3.3)."""

from collections.abc import Sequence

from zoo.data.talks import Segment
from zoo.errors import ZooError
from zoo.types import Seconds


def emission_times(segment: Segment, target: str) -> list[tuple[str, Seconds]]:
    """Earliest emission time of each target word: the end of the last source word aligned to it.

    The times are made monotonic by a running maximum. An unaligned word has the time of the next
    aligned word; unaligned words at the end have the time of the last source word.

    Args:
        segment: segment with word times.
        target: code of the target language.

    Returns:
        Target words with times in seconds from the start of the talk.

    Raises:
        ZooError: the segment has no word times, no word alignment or no such translation.
    """
    if target not in segment.targets:
        raise ZooError(
            f"No {target!r} translation for {segment.source!r}; "
            f"it has: {', '.join(segment.targets)}."
        )
    translation = segment.targets[target]
    unaligned = len(translation.alignment) != len(translation.words) or bool(
        translation.text and not translation.words
    )
    if unaligned or not segment.words:
        raise ZooError(
            f"Segment {segment.source!r} lacks word times or a word alignment; "
            "align the corpus first."
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
    """Target words per chunk: a word belongs to the chunk in which its last source word ends.

    Args:
        segments: segments that overlap the chunks.
        target: code of the target language.
        start: start of the first chunk, seconds from the start of the talk.
        chunks: number of chunks.
        chunk_seconds: length of a chunk.

    Returns:
        One list per chunk; it is empty for a READ.
    """
    turns: list[list[str]] = [[] for _ in range(chunks)]
    for segment in segments:
        for word, time in emission_times(segment, target):
            chunk = int((time - start) / chunk_seconds)
            if time >= start and chunk < chunks:
                turns[chunk].append(word)
    return turns


def merged(turns: Sequence[Sequence[str]], multiplier: int) -> list[list[str]]:
    """Merge every ``multiplier`` turns into one (multi-latency augmentation)."""
    return [
        [word for turn in turns[first : first + multiplier] for word in turn]
        for first in range(0, len(turns), multiplier)
    ]
