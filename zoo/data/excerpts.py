"""Excerpts of talks for offline models: whole sentences, and sentences cut as in streaming.

Passes and excerpts are pure functions of a random generator.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language
from zoo.base.talks import Segment, Talk
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.data.sampling import EncodeTalks, Pass, Sampler, Sampling, Stretches, TalkFrames
from zoo.data.trajectories import emission_times
from zoo.data.views import decoded_segments

SHORTEST: Seconds = 0.08  # minimum duration of an excerpt
GIVEN = 2  # number of target words in the forced prefix after a cut start


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a talk and its translation.

    Attributes:
        talk: the talk.
        start: start of the excerpt in seconds from the start of the talk.
        end: end of the excerpt in seconds from the start of the talk.
        source: source words that lie completely in the excerpt.
        target: words of the translation.
        language: target language.
        num_forced: number of target words at the beginning that are a forced prefix without loss.
        spans: for each target word, start and end of its last aligned source word in seconds from
            the start of the talk (None: unaligned word). Empty if the spans are unknown.
        frames: (frames, hidden) output of a frozen encoder. None: the backbone encodes ``samples``.
    """

    talk: Talk
    start: Seconds
    end: Seconds
    source: tuple[str, ...]
    target: tuple[str, ...]
    language: Language
    num_forced: int = 0
    spans: tuple[tuple[Seconds, Seconds] | None, ...] = ()
    frames: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def seconds(self) -> Seconds:
        """Duration of the audio in seconds."""
        return self.end - self.start

    @property
    def text(self) -> str:
        """The translation."""
        return self.language.join(self.target)

    @property
    def prefix(self) -> str:
        """The forced prefix of the translation."""
        return self.language.join(self.target[: self.num_forced])

    def samples(self) -> Tensor:
        """Audio (n,), n >= 1."""
        return audio.load(
            self.talk.file, start=self.talk.offset + self.start, duration=self.seconds
        )


@dataclass(frozen=True, kw_only=True)
class ExcerptConfig(Sampling):
    """How excerpts are drawn.

    Attributes:
        max_seconds: maximum duration of consecutive sentences, in seconds.
        single: share of the batches with one sentence per excerpt. The excerpts of the other
            batches have consecutive sentences; durations have about equal shares of the audio.
        margin: maximum silence before the first and after the last sentence, in seconds.
        tight: share of the starts and ends without silence, like those of reference segments.
        cut_starts: share of excerpts that begin inside the first sentence. The target begins at a
            random word. The audio begins between ``jitter`` before the first source word of the
            remaining target and the end of that source word. The first ``GIVEN`` target words are a
            forced prefix, like the words that StreamAtt keeps; without them the model could not
            distinguish a cut sentence from a sentence that starts without silence.
        jitter: maximum duration of the audio before that source word, in seconds.
        cut_ends: share of excerpts that end anywhere between the start of the last sentence and the
            start of the next sentence. The target has the words that can be emitted by then.
        encoded: whether excerpts contain the output of a frozen encoder that was run once over
            whole talks. Training is several times faster, but differs from ``decode``: the encoder
            has received the speech before the start and, to the end of its block, after a cut end.
            The last training steps should therefore not use it.
    """

    max_seconds: Seconds = 30.0
    single: float = 0.33
    margin: Seconds = 0.5
    tight: float = 0.0
    cut_starts: float = 0.4
    jitter: Seconds = 0.2
    cut_ends: float = 0.35
    encoded: bool = False

    def __post_init__(self) -> None:
        """Raise ZooError for shares outside 0 to 1 and for invalid lengths."""
        owner = type(self).__name__
        check_numbers(owner, least=0, most=1, single=self.single, tight=self.tight)
        check_numbers(owner, least=0, most=1, cut_starts=self.cut_starts, cut_ends=self.cut_ends)
        check_numbers(owner, least=0, margin=self.margin, jitter=self.jitter)
        check_numbers(owner, above=0, max_seconds=self.max_seconds)

    def sampler(
        self,
        talks: Sequence[Talk],
        *,
        target: Language,
        chunk_seconds: Seconds,
        stretches: Stretches = Stretches(),  # noqa: B008 (frozen)
    ) -> "Excerpts":
        """Excerpts of these talks. Raises ZooError as ``Excerpts`` does."""
        return Excerpts(talks, target, self)


class Excerpts(Sampler):
    """Makes excerpts.

    A pass over single sentences has each sentence once. A pass over runs divides each talk into
    runs of consecutive sentences of random durations, so that each sentence is in one run.

    Args:
        talks: talks with word times and word alignments.
        language: target language.
        config: how excerpts are drawn.

    Raises:
        ZooError: a talk has no word times, alignment or translation.
    """

    def __init__(self, talks: Sequence[Talk], language: Language, config: ExcerptConfig) -> None:
        self.language = language
        self.config = config
        self.talks = [talk for talk in talks if talk.segments]
        for segment in decoded_segments(self.talks):
            # Called for its errors: a segment without word times, alignment or translation raises
            # ZooError.
            emission_times(segment, language.code)
        if not self.talks:
            raise ZooError("The talks have no segments to take excerpts of.")
        # Shares of single sentences and of runs.
        shares = {True: config.single, False: 1 - config.single}
        self._shares = {single: share for single, share in shares.items() if share > 0}
        self._encoded: TalkFrames | None = None

    @property
    def kinds(self) -> Sequence[float]:
        """Shares of single sentences and of runs; a kind without a share is absent."""
        return list(self._shares.values())

    def encode(self, encode_talks: EncodeTalks) -> None:
        """Encode the talks; later excerpts contain the encoder frames that they overlap."""
        self._encoded = encode_talks(self.talks)

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """List talk, first and last sentence of the excerpts of one pass; see ``Sampler``."""
        single = list(self._shares)[kind]
        shortest = min(segment.duration for talk in self.talks for segment in talk.outline)
        longest = max(self.config.max_seconds, shortest)
        positions: list[tuple[int, int, int]] = []
        seconds: list[Seconds] = []
        for index, talk in enumerate(self.talks):
            segments = talk.outline
            first = 0
            while first < len(segments):
                last = first
                if not single:
                    duration = math.exp(random.uniform(math.log(shortest), math.log(longest)))
                    last = _last(segments, first, duration, longest)
                positions.append((index, first, last))
                seconds.append(segments[last].end - segments[first].offset)
                first = last + 1
        return Pass(np.array(positions), np.array(seconds), np.zeros(len(positions), dtype=int))

    def examples(
        self, kind: int, positions: np.ndarray, random: np.random.Generator
    ) -> list[Excerpt]:
        """Make excerpts with random starts and ends; see ``Sampler``."""
        excerpts = [self._excerpt(random, *position) for position in positions.tolist()]
        if self._encoded is None:
            return excerpts
        return [self._with_frames(excerpt) for excerpt in excerpts]

    def _with_frames(self, excerpt: Excerpt) -> Excerpt:
        """Return an excerpt with the encoder frames that it overlaps, at least one frame."""
        assert self._encoded is not None
        rate = SAMPLE_RATE / self._encoded.frame_samples
        first = int(excerpt.start * rate)
        last = max(first + 1, math.ceil(excerpt.end * rate))
        return replace(excerpt, frames=self._encoded.between(excerpt.talk, first, last))

    def _excerpt(self, random: np.random.Generator, talk: int, first: int, last: int) -> Excerpt:
        """Draw an excerpt of the segments ``first`` to ``last`` of a talk."""
        whole = self.talks[talk].segments
        outline = self.talks[talk].outline
        before = outline[first - 1].end if first else 0.0
        after = outline[last + 1].offset if last + 1 < len(whole) else self.talks[talk].duration
        skipped, start = self._start(random, whole[first], before)

        cut = random.random() < self.config.cut_ends
        if cut:
            end = random.uniform(max(start, whole[last].offset), max(start, after))
        else:
            end = min(whole[last].end + self._margin(random), max(after, whole[last].end))
        end = max(end, start + SHORTEST)

        segments = whole[first : last + 1]
        timed = [
            pair for segment in segments for pair in emission_times(segment, self.language.code)
        ]
        source_spans = [
            span for segment in segments for span in _spans_of(segment, self.language.code)
        ]
        words = [index for index in range(skipped, len(timed)) if timed[index][1] <= end or not cut]
        target = tuple(timed[index][0] for index in words)
        return Excerpt(
            talk=self.talks[talk],
            start=start,
            end=end,
            source=tuple(
                w.text for s in segments for w in s.words if start <= w.start and w.end <= end
            ),
            target=target,
            language=self.language,
            num_forced=min(GIVEN, len(target)) if skipped else 0,
            spans=tuple(source_spans[index] for index in words),
        )

    def _margin(self, random: np.random.Generator) -> Seconds:
        """Draw the duration of the silence at a start or an end."""
        if random.random() < self.config.tight:
            return 0.0
        return random.uniform(0, self.config.margin)

    def _start(
        self, random: np.random.Generator, segment: Segment, before: Seconds
    ) -> tuple[int, Seconds]:
        """Draw the start of an excerpt.

        Args:
            random: source of randomness.
            segment: first segment of the excerpt.
            before: end of the previous segment in seconds from the start of the talk.

        Returns:
            The number of skipped target words, and the start in seconds from the start of the talk.
        """
        translation = segment.targets[self.language.code]
        if random.random() >= self.config.cut_starts or len(translation.words) < 2:
            return 0, max(min(before, segment.offset), segment.offset - self._margin(random))
        skipped = int(random.integers(1, len(translation.words)))
        sources = [index for indices in translation.alignment[skipped:] for index in indices]
        earliest = segment.words[min(sources, default=-1)]
        return skipped, max(0.0, random.uniform(earliest.start - self.config.jitter, earliest.end))


def _spans_of(segment: Segment, code: str) -> list[tuple[Seconds, Seconds] | None]:
    """Return start and end of the last aligned source word of each target word.

    None for an unaligned word; times are seconds from the start of the talk.
    """
    lasts = [max(sources, default=None) for sources in segment.targets[code].alignment]
    return [
        None if last is None else (segment.words[last].start, segment.words[last].end)
        for last in lasts
    ]


def _last(segments: Sequence[Segment], first: int, target: Seconds, longest: Seconds) -> int:
    """Return the last sentence of the run from ``first`` whose duration is nearest to ``target``.

    Args:
        segments: Sentences of a talk.
        first: Index of the first sentence of the run.
        target: Desired duration of the run in seconds.
        longest: Maximum duration of a run of several sentences, in seconds.
    """
    start = segments[first].offset
    last = first
    for index in range(first + 1, len(segments)):
        duration = segments[index].end - start
        if duration > longest or abs(duration - target) > abs(segments[last].end - start - target):
            break
        last = index
    return last
