"""Speech chains of thought for training (StreamUni, section 3.2): audio, transcript, translation.

Drawing is a pure function of a random generator.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from zoo import audio
from zoo.data.sampling import BatchShape, Sampler, Sampling
from zoo.data.talks import Segment, Talk
from zoo.data.trajectories import emission_times
from zoo.errors import ZooError, check_choice, check_numbers
from zoo.languages import Language
from zoo.languages import language as language_of
from zoo.types import SAMPLE_RATE, Seconds

Kind = Literal["streaming", "non_streaming", "partial"]
KINDS: tuple[Kind, ...] = get_args(Kind)
GRID: Seconds = 0.08  # lengths are multiples: whole frames for all speech language models
CLOSE: Seconds = 1e-6  # times that differ by less are equal
PUNCTUATION = re.compile(r"\W+$")


@dataclass(frozen=True, slots=True)
class SpeechChainOfThought:
    """A part of a talk with its transcript and translation.

    Attributes:
        talk: the talk.
        start: seconds from the start of the talk.
        end: seconds from the start of the talk.
        transcript: transcript.
        translation: translation.
        language: target language.
        kind: see ``SpeechChainOfThoughtConfig``.
    """

    talk: Talk
    start: Seconds
    end: Seconds
    transcript: str
    translation: str
    language: Language
    kind: Kind

    def samples(self) -> Tensor:
        """Audio (n,); all examples of a batch have the same n."""
        count = round((self.end - self.start) * SAMPLE_RATE)
        samples = audio.load(
            self.talk.file, start=self.talk.offset + self.start, duration=count / SAMPLE_RATE
        )[:count]
        return torch.nn.functional.pad(samples, (0, count - samples.numel()))


@dataclass(frozen=True, kw_only=True)
class SpeechChainOfThoughtConfig(Sampling):
    """Sampling of chains of thought. By default single sentences from their start, as in the paper.

    The kinds are ``non_streaming``, whole sentences; ``streaming``, which ends anywhere with equal
    probability, has the transcript up to that time and the full translation of every sentence that
    has begun; and ``partial``, like ``streaming`` with the translation up to that time only.

    The attributes from ``silence`` to ``settled`` imitate the segments of a truncation policy.

    Attributes:
        mixture: share of the steps, and so of the audio, of each kind.
        hours: hours of the corpus, from its first talk on, for each kind (absent or None: all).
        sentences: shares of the steps with one, two, three ... consecutive sentences.
        max_seconds: longest example.
        silence: seconds before and after the sentences, at most, and never inside another one.
        missing: part of the first word that may be cut off, as a share of its length.
        reach: seconds of the next sentence before the end, at most.
        settled: seconds after the last word from which on its punctuation is in the transcript.
        off_grid: share of the steps with any multiple of 80 ms as length; the others have whole
            chunks of the system.
    """

    mixture: Mapping[str, float] = field(
        default_factory=lambda: {"streaming": 0.5, "non_streaming": 0.5}
    )
    hours: Mapping[str, float | None] = field(default_factory=dict)
    sentences: Sequence[float] = (1.0,)
    max_seconds: Seconds = 30.0
    silence: Seconds = 0.0
    missing: float = 0.0
    reach: Seconds = 0.0
    settled: Seconds = 0.0
    off_grid: float = 1.0

    def __post_init__(self) -> None:
        """Raise ZooError for an unknown kind, invalid shares and negative times."""
        for kind in (*self.mixture, *self.hours):
            check_choice("kind of chain of thought", kind, KINDS)
        for name, shares in (
            ("mixture", tuple(self.mixture.values())),
            ("sentences", tuple(self.sentences)),
        ):
            if min(shares, default=-1.0) < 0 or sum(shares) <= 0:
                raise ZooError(
                    f"{name} of chains of thought needs shares of at least 0, one above it; "
                    f"not {list(shares)}."
                )
        owner = type(self).__name__
        check_numbers(owner, least=0, most=1, missing=self.missing, off_grid=self.off_grid)
        times = {"silence": self.silence, "reach": self.reach, "settled": self.settled}
        check_numbers(owner, least=0, **times)
        check_numbers(owner, least=GRID, max_seconds=self.max_seconds)
        hours = {f"hours.{kind}": hours for kind, hours in self.hours.items() if hours is not None}
        check_numbers(owner, above=0, **hours)

    def sampler(
        self, talks: Sequence[Talk], *, target: Language, chunk_seconds: Seconds
    ) -> "SpeechChainsOfThought":
        """Return the sampler of these talks; raises ZooError like ``SpeechChainsOfThought``."""
        return SpeechChainsOfThought(talks, target, self, chunk_seconds=chunk_seconds)


class SpeechChainsOfThought(Sampler):
    """Draws speech chains of thought.

    Args:
        talks: talks with word times; the kind ``partial`` needs word alignments, too.
        target: target language.
        config: options of the examples.
        chunk_seconds: length of the streaming system's chunk.

    Raises:
        ZooError: a talk has no word times or translation, or no sentence fits.
    """

    def __init__(
        self,
        talks: Sequence[Talk],
        target: Language,
        config: SpeechChainOfThoughtConfig,
        *,
        chunk_seconds: Seconds,
    ) -> None:
        self.target = target
        self.config = config
        self.chunk_seconds = chunk_seconds
        self.talks = [talk for talk in talks if talk.segments]
        self._kinds = [kind for kind in KINDS if config.mixture.get(kind)]
        for segment in (segment for talk in self.talks for segment in talk.segments):
            if "partial" in self._kinds or target.code not in segment.targets:
                emission_times(segment, target.code)  # raises with the reason
            elif not segment.words:
                raise ZooError(
                    f"Segment {segment.source!r} lacks word times; align the corpus first."
                )
        self._windows = {
            (kind, count): self._found(kind, count)
            for kind in self._kinds
            for count, share in enumerate(config.sentences, start=1)
            if share
        }

    def batch(self, random: np.random.Generator, shape: BatchShape) -> list[SpeechChainOfThought]:
        """Return chains of thought of one kind and one length."""
        kind = self._kinds[_choice(random, [self.config.mixture[kind] for kind in self._kinds])]
        windows = self._windows[kind, 1 + _choice(random, self.config.sentences)]
        whole_chunks = random.random() >= self.config.off_grid
        length = windows.length(random, self.chunk_seconds if whole_chunks else GRID)
        rows = windows.fitting(random, length, shape.count(length))
        return [
            self._example(random, kind, windows.places[row], windows.bounds[row], length)
            for row in rows
        ]

    def _example(
        self,
        random: np.random.Generator,
        kind: Kind,
        place: np.ndarray,
        bounds: np.ndarray,
        length: Seconds,
    ) -> SpeechChainOfThought:
        talk, (first, last) = self.talks[place[0]], place[1:].tolist()
        begin_low, begin_high, end_low, end_high = bounds.tolist()
        low, high = max(begin_low, end_low - length), min(begin_high, end_high - length)
        start = max(0.0, random.uniform(low, max(low, high)))
        end = start + length
        if kind == "non_streaming":
            texts = self._whole(talk, talk.segments[first : last + 1])
        else:
            texts = self._cut(talk, talk.segments[first:], end, kind)
        return SpeechChainOfThought(talk, start, end, *texts, self.target, kind)

    def _whole(self, talk: Talk, segments: Sequence[Segment]) -> tuple[str, str]:
        """Transcript and translation of whole segments."""
        transcript = language_of(talk.source_language).join(
            word.text for segment in segments for word in segment.words
        )
        return transcript, self.target.separator.join(
            segment.targets[self.target.code].text for segment in segments
        )

    def _cut(
        self, talk: Talk, segments: Sequence[Segment], end: Seconds, kind: Kind
    ) -> tuple[str, str]:
        """Transcript up to ``end``, and the translation that the kind has for it."""
        words: list[str] = []
        translations: list[str] = []
        for segment in segments:
            complete = [word for word in segment.words if word.end <= end + CLOSE]
            if not complete:
                break
            words += [word.text for word in complete]
            if complete[-1].end + self.config.settled > end + CLOSE:
                words[-1] = PUNCTUATION.sub("", words[-1]) or words[-1]
            if kind == "streaming":
                translations.append(segment.targets[self.target.code].text)
            else:
                timed = emission_times(segment, self.target.code)
                translations.append(
                    self.target.join(word for word, time in timed if time <= end + CLOSE)
                )
        transcript = language_of(talk.source_language).join(words)
        return transcript, self.target.separator.join(text for text in translations if text)

    def _found(self, kind: Kind, count: int) -> "_Windows":
        """Possible starts and ends of examples of ``count`` sentences."""
        places: list[tuple[int, int, int]] = []
        bounds: list[tuple[float, ...]] = []
        left = (self.config.hours.get(kind) or np.inf) * 3600
        for index, talk in enumerate(self.talks):
            if left <= 0:
                break
            left -= talk.duration
            for first in range(len(talk.segments) - count + 1):
                places.append((index, first, first + count - 1))
                bounds.append(
                    self._window(talk, first, first + count - 1, whole=kind == "non_streaming")
                )
        windows = _Windows.of(
            np.array(places).reshape(-1, 3),
            np.array(bounds).reshape(-1, 4),
            self.config.max_seconds,
        )
        if not len(windows.places):
            raise ZooError(
                f"The training talks have no {count} consecutive sentences for {kind} chains of "
                f"thought of at most {self.config.max_seconds} s."
            )
        return windows

    def _window(
        self, talk: Talk, first: int, last: int, *, whole: bool
    ) -> tuple[float, float, float, float]:
        """Earliest and latest start and end of an example of segments ``first`` to ``last``."""
        segments, config = talk.segments, self.config
        begin, end = segments[first], segments[last]
        word = begin.words[0]
        earliest = max(segments[first - 1].end if first else 0.0, begin.offset - config.silence)
        latest = word.start + config.missing * (word.end - word.start)

        following = segments[last + 1] if last + 1 < len(segments) else None
        if whole:
            until = following.words[0].end - 2 * CLOSE if following else talk.duration
            opening = end.end + config.settled
            closing = min(opening + max(config.silence, GRID), until)
            return min(earliest, latest), latest, opening, max(closing, opening)

        opening = segments[last - 1].end if last > first else min(earliest, latest) + GRID
        until = following.offset + config.reach if following else talk.duration
        closing = min(until, end.end + config.silence + config.reach, talk.duration)
        return min(earliest, latest), latest, opening, max(closing, opening)


@dataclass(frozen=True, slots=True)
class _Windows:
    """Possible positions of examples.

    Attributes:
        places: (n, 3) talk, first and last segment.
        bounds: (n, 4) earliest and latest start, earliest and latest end, in seconds.
        shortest: (n,) shortest length on the grid.
        longest: (n,) longest length on the grid.
    """

    places: np.ndarray
    bounds: np.ndarray
    shortest: np.ndarray
    longest: np.ndarray

    @staticmethod
    def of(places: np.ndarray, bounds: np.ndarray, max_seconds: Seconds) -> "_Windows":
        """The places for which some length on the grid is possible."""
        shortest = np.ceil((np.maximum(bounds[:, 2] - bounds[:, 1], GRID) - CLOSE) / GRID) * GRID
        longest = (
            np.floor((np.minimum(bounds[:, 3] - bounds[:, 0], max_seconds) + CLOSE) / GRID) * GRID
        )
        kept = shortest <= longest + CLOSE
        return _Windows(places[kept], bounds[kept], shortest[kept], longest[kept])

    def length(self, random: np.random.Generator, unit: Seconds) -> Seconds:
        """Draw a possible length: a multiple of ``unit``, or of the grid where no multiple fits."""
        row = random.integers(len(self.places))
        for size in (unit, GRID):
            least = math.ceil((self.shortest[row] - CLOSE) / size)
            most = math.floor((self.longest[row] + CLOSE) / size)
            if least <= most:
                break
        return float(size * random.integers(least, most + 1))

    def fitting(self, random: np.random.Generator, length: Seconds, count: int) -> np.ndarray:
        """Draw (count,) rows with ``length``; rows with fewer lengths have a larger weight."""
        rows = np.flatnonzero((self.shortest <= length + CLOSE) & (length <= self.longest + CLOSE))
        weights = 1 / (GRID + self.longest[rows] - self.shortest[rows])
        return random.choice(rows, size=count, p=weights / weights.sum())


def _choice(random: np.random.Generator, shares: Sequence[float]) -> int:
    return int(random.choice(len(shares), p=np.array(shares) / np.sum(shares)))
