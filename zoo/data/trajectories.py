"""Trajectories: the target words to emit after each chunk of speech (InfiniSST, section 3.3)."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment
from zoo.base.types import SAMPLE_RATE, Seconds


def emission_times(segment: Segment, target: str) -> list[tuple[str, Seconds]]:
    """Return the earliest time at which each target word can be emitted.

    This is the end of the last source word that is aligned to it. A word is never earlier than the
    word before it. An unaligned word has the time of the next aligned word; unaligned words at the
    end have the time of the last source word.

    Args:
        segment: segment with word times.
        target: code of the target language.

    Returns:
        Target words with times in seconds from the start of the talk; those of a language without
        spaces between words have the spaces of the translation (``Language.with_spaces``).

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
            "align the corpus first, or mark the segment as not usable (data.unaligned=skip marks "
            "all such segments of data=aligned)."
        )

    # Go from the last word to the first: an unaligned word takes the time of the next word.
    word_times: list[Seconds] = []
    time = segment.words[-1].end
    for sources in reversed(translation.alignment):
        if sources:
            time = max(segment.words[source].end for source in sources)
        word_times.append(time)
    word_times.reverse()

    earliest = segment.words[0].end
    times: list[tuple[str, Seconds]] = []
    words = language(target).with_spaces(translation.text, translation.words)
    for word, time in zip(words, word_times, strict=True):
        earliest = max(earliest, time)
        times.append((word, earliest))
    return times


def chunked_words(
    segments: Sequence[Segment], target: str, *, start: Seconds, chunks: int, chunk_seconds: Seconds
) -> list[list[str]]:
    """Return the target words of each chunk, in which the last aligned source word ends.

    A source word that ends exactly at the end of a chunk belongs to this chunk, which has all its
    samples.

    Args:
        segments: segments that overlap the chunks.
        target: code of the target language.
        start: start of the first chunk in seconds from the start of the talk.
        chunks: number of chunks.
        chunk_seconds: duration of a chunk in seconds.

    Returns:
        One list per chunk; it is empty if no word is written after the chunk.
    """
    turns: list[list[str]] = [[] for _ in range(chunks)]
    chunk_samples = round(chunk_seconds * SAMPLE_RATE)
    for segment in segments:
        for word, time in emission_times(segment, target):
            # Samples from the start of the segment to the end of the word.
            samples = round((time - start) * SAMPLE_RATE)
            if 0 < samples <= chunks * chunk_samples:
                turns[(samples - 1) // chunk_samples].append(word)
    return turns


def words_until(
    segments: Sequence[Segment], target: str, *, start: Seconds, limits: Sequence[Seconds]
) -> list[list[str]]:
    """Return the target words of each turn, of which the source words ended until a time.

    Args:
        segments: segments that overlap the turns.
        target: code of the target language.
        start: start of the first turn in seconds from the start of the talk; words that could be
            emitted until then are left out.
        limits: the time of each turn in seconds from the start of the talk, never decreasing.

    Returns:
        One list per turn; words after the last time are left out.
    """
    turns: list[list[str]] = [[] for _ in limits]
    for segment in segments:
        for word, time in emission_times(segment, target):
            turn = bisect_left(limits, time)
            if time > start and turn < len(limits):
                turns[turn].append(word)
    return turns


def merge_turns(turns: Sequence[Sequence[str]], multiplier: int) -> list[list[str]]:
    """Merge every ``multiplier`` consecutive turns into one turn.

    InfiniSST trains with random multipliers (multi-latency augmentation).
    """
    return [
        list(chain.from_iterable(turns[first : first + multiplier]))
        for first in range(0, len(turns), multiplier)
    ]
