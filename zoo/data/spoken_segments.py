"""Segments of talks with their transcripts, to train recognisers of the source speech."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language
from zoo.base.languages import language as language_of
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import Samples, Seconds
from zoo.data.clips import Clip
from zoo.data.excerpts import Excerpt
from zoo.data.sampling import Pass, Sampler, Sampling, Stretches

UNIT: Samples = 320  # the length of a clip is a multiple of this


@dataclass(frozen=True, kw_only=True)
class SpokenSegmentConfig(Sampling):
    """How segments are cut from their talks.

    Attributes:
        margin: maximum duration of the audio before and after a segment, in seconds.
        max_seconds: maximum duration of a segment; longer segments are left out.
    """

    margin: Seconds = 0.2
    max_seconds: Seconds = 30.0

    def __post_init__(self) -> None:
        """Raise ZooError for invalid durations."""
        check_numbers(type(self).__name__, least=0, margin=self.margin)
        check_numbers(type(self).__name__, above=0, max_seconds=self.max_seconds)

    def sampler(
        self,
        talks: Sequence[Talk],
        *,
        target: Language,
        chunk_seconds: Seconds,
        stretches: Stretches = Stretches(),  # noqa: B008 (frozen)
    ) -> "SpokenSegments":
        """Segments of these talks. Raises ZooError as ``SpokenSegments`` does."""
        return SpokenSegments(talks, self)


class SpokenSegments(Sampler):
    """Clips of the source speech, each with the transcript of one segment.

    Args:
        talks: talks with transcripts. ``Talk.labels["phonemes"]`` give the clips their phonemes.
        config: how segments are cut.

    Raises:
        ZooError: there is no segment with a transcript.
    """

    def __init__(self, talks: Sequence[Talk], config: SpokenSegmentConfig) -> None:
        self.config = config
        self._segments: list[tuple[Talk, Segment]] = [
            (talk, segment)
            for talk in talks
            for segment in talk.segments
            if any(map(str.isalnum, segment.source)) and segment.duration <= config.max_seconds
        ]
        if not self._segments:
            raise ZooError(
                "The talks have no segments with transcripts to recognise that last at most "
                f"{config.max_seconds:g} s (max_seconds)."
            )

    @property
    def kinds(self) -> Sequence[float]:
        """All segments are of one kind."""
        return [1.0]

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """List all segments by their indices; see ``Sampler``."""
        indices = np.arange(len(self._segments))
        seconds = np.array([segment.duration for _, segment in self._segments])
        return Pass(indices, seconds, np.zeros_like(indices))

    def examples(self, kind: int, positions: np.ndarray, random: np.random.Generator) -> list[Clip]:
        """Cut segments with random margins; see ``Sampler``."""
        return [self._clip(index, random) for index in positions.tolist()]

    def _clip(self, index: int, random: np.random.Generator) -> Clip:
        """Cut one segment with a random duration of audio before and after it."""
        talk, segment = self._segments[index]
        before, after = random.uniform(0, self.config.margin, size=2).tolist()
        start = max(0.0, segment.offset - before)
        end = min(talk.duration, segment.end + after)
        samples = audio.load(talk.file, start=talk.offset + start, duration=end - start)

        language = language_of(talk.source_language)
        words = tuple(language.units(segment.source))
        return Clip(
            Excerpt(talk, start, end, words, words, language),
            samples[: len(samples) // UNIT * UNIT],
            _shifted(segment.words, start, end),
            _shifted(talk.labels.get("phonemes", ()), start, end),
            talk.voice,
        )


def _shifted(words: Sequence[Word], start: Seconds, end: Seconds) -> tuple[Word, ...]:
    """Return the words or phonemes of a part of a talk in seconds from the start of the part."""
    return tuple(
        Word(word.text, word.start - start, word.end - start)
        for word in words
        if word.start < end and word.end > start
    )
