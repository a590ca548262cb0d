"""Transcripts as the references of systems that transcribe: their target language is the source."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from zoo.base.languages import language
from zoo.base.talks import LazyTalks, Segment, Talk, Target
from zoo.data.word_times import transcript_words


def with_transcripts(talks: Sequence[Talk], targets: Collection[str]) -> Sequence[Talk]:
    """Return talks whose transcripts are references where a target language is the spoken one.

    Segments that already have a reference in that language keep it, and talks that have segments
    without a transcript stay as they are.

    Args:
        talks: Talks. Those that are decoded when they are needed are returned unchanged.
        targets: Codes of the target languages of the systems.
    """
    if isinstance(talks, LazyTalks):
        return talks
    return [_with_transcript(talk) if talk.source_language in targets else talk for talk in talks]


def _with_transcript(talk: Talk) -> Talk:
    """Return a talk with its transcripts as references in the language of the speech."""
    code = talk.source_language
    if not all(segment.source.strip() for segment in talk.segments):
        return talk
    segments = tuple(
        segment
        if code in segment.targets
        else replace(segment, targets={**segment.targets, code: _reference(segment, code)})
        for segment in talk.segments
    )
    return replace(talk, segments=segments)


def _reference(segment: Segment, code: str) -> Target:
    """Return the transcript of a segment as a translation, aligned word by word if it has times."""
    if not segment.words:
        return Target(segment.source)
    # An alignment counts the words of the segment, which an aligner may spell in its own way.
    words = transcript_words(segment, language(code))
    if len(words) != len(segment.words):
        return Target(segment.source)
    return Target(
        segment.source,
        words=tuple(word.text for word in words),
        alignment=tuple((index,) for index in range(len(words))),
    )
