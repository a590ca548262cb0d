"""Talks as streams of audio chunks."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from torch import Tensor

from zoo.audio import files as audio
from zoo.languages import Language
from zoo.streaming.simulate import Source
from zoo.talks import Talk
from zoo.types import Samples, Seconds

WARM_UP: Seconds = 4.0  # longest audio of a warm-up


def sources(
    talks: Iterable[Talk], target: Language, *, chunk_samples: Samples | None
) -> Iterator[Source]:
    """Yield one stream per talk, as ``source`` does."""
    return (source(talk, target, chunk_samples=chunk_samples) for talk in talks)


def source(
    talk: Talk, target: Language, *, chunk_samples: Samples | None, index: int | None = None
) -> Source:
    """Create the stream of a talk.

    Args:
        talk: Talk with audio.
        target: Language of the reference. A segment without translation adds nothing to it.
        chunk_samples: Number of samples per chunk. None: the whole talk, for offline decoding.
        index: Position of the stream in the evaluation.
    """
    texts = [
        segment.targets[target.code].text
        for segment in talk.segments
        if target.code in segment.targets
    ]
    return Source(
        talk.name,
        talk_chunks(talk, chunk_samples),
        reference=target.separator.join(texts),
        segments=[(segment.offset, segment.end) for segment in talk.segments],
        index=index,
    )


def beginning(talk: Talk, target: Language, *, chunk_samples: Samples) -> Source:
    """Create the stream of the first seconds of a talk, for ``warm_up``; see ``source``."""
    first = replace(talk, duration=min(WARM_UP, talk.duration))
    return source(first, target, chunk_samples=chunk_samples)


def talk_chunks(talk: Talk, chunk_samples: Samples | None) -> Iterator[Tensor]:
    """Read a talk's audio and yield it in chunks (n,).

    Each chunk is a copy, so that it does not keep the whole talk in memory.
    """
    samples = audio.load(talk.file, start=talk.offset, duration=talk.duration)
    size = chunk_samples or max(1, samples.numel())
    for start in range(0, samples.numel(), size):
        yield samples[start : start + size].clone()
