"""From talks to streams of chunks. Reads audio, knows no system."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from zoo import audio
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.metrics.references import ReferenceSegment
from zoo.streaming.simulate import Source
from zoo.types import Samples


def reference_segments(talk: Talk, target: Language) -> list[ReferenceSegment]:
    """The reference translations of a talk and where they are spoken. Raises ZooError where one is missing."""
    return [
        ReferenceSegment.of(segment, target=target.code, talk=talk.name)
        for segment in talk.segments
    ]


def check_talks(
    talks: Sequence[Talk], *, source: Language, target: Language, heard: bool = True
) -> None:
    """Read everything once, before long work. Raises ZooError for a talk of another source language, without a
    reference or, where it will be ``heard``, with audio that cannot be streamed."""
    if not talks:
        raise ZooError("There is no talk to evaluate.")
    for talk in talks:
        if talk.source_language != source.code:
            raise ZooError(
                f"Talk {talk.name!r} is spoken in {talk.source_language!r}, not in {source.code!r}."
            )
        offered = sorted(
            set.intersection(*(set(segment.targets) for segment in talk.segments))
            if talk.segments
            else ()
        )
        if target.code not in offered:
            known = ", ".join(offered) or "none"
            raise ZooError(
                f"Talk {talk.name!r} has no reference in {target.code!r}; it has: {known}."
            )
        if not any(segment.text.strip() for segment in reference_segments(talk, target)):
            raise ZooError(
                f"Talk {talk.name!r} has no reference in {target.code!r}: all its segments are empty."
            )
        if heard:
            audio.load(talk.file, start=talk.offset, duration=talk.duration)


def sources(
    talks: Sequence[Talk], target: Language, *, chunk_samples: Samples | None
) -> Iterator[Source]:
    """One stream per talk, in chunks of ``chunk_samples`` (None: all at once, for offline decoding)."""
    for talk in talks:
        reference = target.separator.join(
            segment.text for segment in reference_segments(talk, target)
        )
        segments = [(segment.offset, segment.end) for segment in talk.segments]
        yield Source(talk.name, talk_chunks(talk, chunk_samples), reference, segments)


def talk_chunks(talk: Talk, chunk_samples: Samples | None) -> Iterator[Tensor]:
    """The audio of a talk, read when it is asked for; each chunk is a copy that outlives the talk's buffer."""
    samples = audio.load(talk.file, start=talk.offset, duration=talk.duration)
    size = chunk_samples or max(1, samples.numel())
    for start in range(0, samples.numel(), size):
        yield samples[start : start + size].clone()
