"""Speech chains of thought for training (StreamUni, section 3.2): audio, transcript, translation.

Passes and examples are pure functions of a random generator.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.languages import Language
from zoo.base.languages import language as language_of
from zoo.base.talks import Segment, Share, Talk
from zoo.base.types import NO_CONTEXT, SAMPLE_RATE, Context, Seconds
from zoo.data.sampling import Pass, Sampler, Sampling, Stretches
from zoo.data.terms import TermSampler, TermSampling
from zoo.data.trajectories import emission_times
from zoo.data.views import decoded_segments
from zoo.data.word_times import transcript_words

Kind = Literal["streaming", "non_streaming", "partial"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PartialTranslations = Literal["alignment", "prefixes"]
GRID: Seconds = 0.08  # durations are multiples of this, so that all speech LLMs get whole frames
CLOSE: Seconds = 1e-6  # times that differ by less than this are equal
PUNCTUATION = re.compile(r"\W+$")  # punctuation at the end of a word


@dataclass(frozen=True, slots=True)
class SpeechChainOfThought:
    """A part of a talk with its transcript and translation.

    Attributes:
        talk: the talk.
        start: start of the part in seconds from the start of the talk.
        end: end of the part in seconds from the start of the talk.
        transcript: source text of the part, as the corpus spells it.
        translation: target text of the part.
        language: target language.
        kind: kind of the example; see ``SpeechChainOfThoughtConfig``.
        context: terms in the prompt.
    """

    talk: Talk
    start: Seconds
    end: Seconds
    transcript: str
    translation: str
    language: Language
    kind: Kind
    context: Context = NO_CONTEXT

    @property
    def seconds(self) -> Seconds:
        """Duration of the part in seconds."""
        return self.end - self.start

    def samples(self) -> Tensor:
        """Audio (n,)."""
        count = round(self.seconds * SAMPLE_RATE)
        samples = audio.load(
            self.talk.file, start=self.talk.offset + self.start, duration=count / SAMPLE_RATE
        )[:count]
        return torch.nn.functional.pad(samples, (0, count - samples.numel()))


@dataclass(frozen=True, kw_only=True)
class SpeechChainOfThoughtConfig(Sampling):
    """Sampling of chains of thought. By default single sentences from their start, as in the paper.

    An example of the kind ``non_streaming`` has whole sentences. An example of the kind
    ``streaming`` ends at any time with equal probability; it has the transcript up to that time and
    the full translation of every sentence that has begun. The kind ``partial`` is like
    ``streaming``, but has the translation only up to that time.

    In streaming, the policy truncates the audio at boundaries that it detects. The attributes
    ``silence``, ``missing``, ``reach`` and ``settled`` imitate the errors of these boundaries.

    Attributes:
        mixture: share of the audio of each kind.
        hours: hours of audio of single sentences that each kind has in a pass; a cut sentence has
            half of its duration on average. The kinds have different sentences, in the order
            streaming, non_streaming, partial from the first talk on. If the talks have too few,
            all these kinds have proportionally less. Absent or None: all sentences.
        sentences: shares of the audio with one, two, three and more consecutive sentences.
        max_seconds: maximum duration of an example.
        silence: maximum seconds before and after the sentences. Other sentences are left out.
        partial_translations: translation of the words so far in an example of the kind
            ``partial``. ``alignment``: the beginning of the translation, by the word alignment.
            ``prefixes``: a translation of these words alone, as the step ``prefixes`` of
            ``zoo.apps.prepare`` generates them (StreamUni, appendix C).
        missing: maximum share of the first word that is cut off.
        reach: maximum seconds of the next sentence at the end of an example.
        settled: seconds between the end of a word and the time from which on the transcript has the
            punctuation after the word.
        off_grid: share of the examples whose duration is any multiple of 80 ms. The durations of
            the other examples are whole chunks of the system.
        terms: terms of a glossary in the prompts. None: prompts without context.
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
    partial_translations: PartialTranslations = "alignment"
    terms: TermSampling | None = None

    def __post_init__(self) -> None:
        """Raise ZooError for an unknown kind, invalid shares and negative times."""
        for kind in (*self.mixture, *self.hours):
            check_choice("kind of chain of thought", kind, KINDS)
        check_choice(
            "partial_translations", self.partial_translations, get_args(PartialTranslations)
        )
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

    def for_share(self, share: Share) -> Self:
        """Return the options with the kinds and the hours of a share."""
        return replace(self, mixture=share.hours, hours=share.hours)

    def for_window(self, windows: int) -> Self:
        """Return the options with the hours of one window."""
        hours = {kind: hours and hours / windows for kind, hours in self.hours.items()}
        return replace(self, hours=hours)

    def for_development(self) -> Self:
        """Return the options with all sentences for each kind."""
        return replace(self, hours={})

    def sampler(
        self,
        talks: Sequence[Talk],
        *,
        target: Language,
        chunk_seconds: Seconds,
        stretches: Stretches = Stretches(),  # noqa: B008 (frozen)
    ) -> "SpeechChainsOfThought":
        """Return the sampler of these talks; raises ZooError like ``SpeechChainsOfThought``."""
        return SpeechChainsOfThought(talks, target, self, chunk_seconds=chunk_seconds)


class SpeechChainsOfThought(Sampler):
    """Makes speech chains of thought.

    A pass over the examples of one kind and one number of sentences divides each talk into runs of
    that number of sentences, from a random sentence on, and has each run once.

    Args:
        talks: talks; the kind ``streaming`` needs word times, the kind ``partial`` needs word
            alignments or translations of prefixes, too.
        target: target language.
        config: options of the examples.
        chunk_seconds: duration of one chunk of the streaming system, in seconds.

    Raises:
        ZooError: a talk lacks a translation, or needed word times or alignments; or no sentence
            fits.
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
        self.terms = TermSampler(config.terms) if config.terms else None
        self.talks = [talk for talk in talks if talk.segments]
        self._kinds = [kind for kind in KINDS if config.mixture.get(kind)]
        self._by_prefixes = config.partial_translations == "prefixes"
        for talk in self.talks:
            for segment in decoded_segments([talk]):
                self._check_segment(segment, language_of(talk.source_language))

        self._ranges = self._divide_sentences()
        # Share of the audio by kind and number of sentences.
        self._shares: dict[tuple[Kind, int], float] = {}
        self._windows: dict[tuple[Kind, int], _Windows] = {}
        total = sum(config.mixture.values()) * sum(config.sentences)
        for kind in self._kinds:
            for count, share in enumerate(config.sentences, start=1):
                if share > 0:
                    self._shares[kind, count] = config.mixture[kind] * share / total
                    self._windows[kind, count] = self._find_windows(kind, count)

    def _check_segment(self, segment: Segment, source: Language) -> None:
        """Raise ZooError if a segment lacks what the kinds of examples need."""
        aligned = "partial" in self._kinds and not self._by_prefixes
        if aligned or self.target.code not in segment.targets:
            # Called for its errors: it raises ZooError with the reason.
            emission_times(segment, self.target.code)
        elif "partial" in self._kinds:
            self._check_prefixes(segment, source)
        elif "streaming" in self._kinds and not segment.words:
            raise ZooError(
                f"Segment {segment.source!r} lacks word times, which streaming chains of thought "
                "need; align the corpus first, or train on non-streaming ones alone "
                "(mixture.streaming=0)."
            )

    def _check_prefixes(self, segment: Segment, source: Language) -> None:
        """Raise ZooError if a segment lacks translations of its prefixes."""
        available = len(segment.targets[self.target.code].prefixes)
        needed = len(transcript_words(segment, source)) - 1
        if not segment.words or available != needed:
            raise ZooError(
                f"Segment {segment.source!r} has {available} of the {needed} {self.target.name} "
                "translations of its prefixes that partial_translations=prefixes needs; prepare "
                "the corpus with the step prefixes of zoo.apps.prepare."
            )

    def _divide_sentences(self) -> dict[Kind, tuple[Seconds, Seconds]]:
        """Return the positions of the sentences of each kind with limited hours: first, past last.

        The position of a sentence is the duration of all sentences before it, in seconds.
        """
        needed: dict[Kind, Seconds] = {}  # duration of the sentences of a kind
        for kind in self._kinds:
            hours = self.config.hours.get(kind)
            if hours is not None:
                needed[kind] = hours * 3600 * (1 if kind == "non_streaming" else 2)

        total = sum(segment.duration for talk in self.talks for segment in talk.outline)
        scale = min(1.0, total / max(sum(needed.values()), CLOSE))
        ranges: dict[Kind, tuple[Seconds, Seconds]] = {}
        start = 0.0
        for kind, seconds in needed.items():
            ranges[kind] = (start, start + seconds * scale)
            start = ranges[kind][1]
        return ranges

    @property
    def kinds(self) -> Sequence[float]:
        """Share of each kind of example with each number of sentences."""
        return list(self._shares.values())

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """List the rows of the possible positions and their durations; see ``Sampler``.

        Durations of whole chunks are one group, other durations the other group.
        """
        name, count = list(self._shares)[kind]
        windows = self._windows[name, count]
        first = random.integers(count, size=len(self.talks))  # first sentence of each talk's runs
        runs = (windows.positions[:, 1] - first[windows.positions[:, 0]]) % count == 0
        rows = np.flatnonzero(runs) if runs.any() else np.arange(len(windows.positions))
        on_grid = random.random(len(rows)) >= self.config.off_grid
        units = np.where(on_grid, self.chunk_seconds, GRID)
        seconds = windows.lengths(rows, units, random)
        return Pass(np.stack([rows, seconds], axis=1), seconds, on_grid.astype(int))

    def examples(
        self, kind: int, positions: np.ndarray, random: np.random.Generator
    ) -> list[SpeechChainOfThought]:
        """Make examples with random starts; see ``Sampler``.

        An example takes the median duration of the batch if its position allows it, because
        encoders that do not mask padding encode audio of one length at a time.
        """
        name, count = list(self._shares)[kind]
        windows = self._windows[name, count]
        rows, lengths = positions[:, 0].astype(int), positions[:, 1]
        common = np.sort(lengths)[len(lengths) // 2]
        fits = (windows.shortest[rows] <= common + CLOSE) & (
            common <= windows.longest[rows] + CLOSE
        )
        lengths = np.where(fits, common, lengths)
        return [
            self._example(random, name, windows.positions[row], windows.bounds[row], float(length))
            for row, length in zip(rows, lengths, strict=True)
        ]

    def _example(
        self,
        random: np.random.Generator,
        kind: Kind,
        position: np.ndarray,
        bounds: np.ndarray,
        length: Seconds,
    ) -> SpeechChainOfThought:
        """Draw the start of an example.

        Args:
            random: source of randomness.
            kind: kind of the example.
            position: (3,) row of ``_Windows.positions``.
            bounds: (4,) row of ``_Windows.bounds``.
            length: duration of the example in seconds.
        """
        talk = self.talks[position[0]]
        first, last = position[1:].tolist()
        earliest_start, latest_start, earliest_end, latest_end = bounds.tolist()
        low = max(earliest_start, earliest_end - length)
        high = min(latest_start, latest_end - length)
        start = max(0.0, random.uniform(low, max(low, high)))
        end = start + length

        if kind == "non_streaming":
            texts = self._whole(talk, talk.segments[first : last + 1])
        else:
            following = (talk.segments[index] for index in range(first, len(talk.segments)))
            texts = self._cut(talk, following, end, kind)
        context = NO_CONTEXT
        if self.terms:
            *drawn, context = self.terms.draw(*texts, random)
            texts = drawn[0], drawn[1]
        return SpeechChainOfThought(talk, start, end, *texts, self.target, kind, context)

    def _whole(self, talk: Talk, segments: Sequence[Segment]) -> tuple[str, str]:
        """Return transcript and translation of whole segments."""
        return language_of(talk.source_language).separator.join(
            segment.source for segment in segments
        ), self.target.separator.join(
            segment.targets[self.target.code].text for segment in segments
        )

    def _cut(
        self, talk: Talk, segments: Iterable[Segment], end: Seconds, kind: Kind
    ) -> tuple[str, str]:
        """Return the transcript up to ``end``, and the translation of an example of this kind."""
        source = language_of(talk.source_language)
        words: list[str] = []
        translations: list[str] = []
        for segment in segments:
            every = transcript_words(segment, source)
            complete = [word for word in every if word.end <= end + CLOSE]
            if not complete:
                break
            words += [word.text for word in complete]
            if complete[-1].end + self.config.settled > end + CLOSE:
                words[-1] = PUNCTUATION.sub("", words[-1]) or words[-1]
            target = segment.targets[self.target.code]
            if kind == "streaming" or (self._by_prefixes and len(complete) == len(every)):
                translations.append(target.text)
            elif self._by_prefixes:
                translations.append(target.prefixes[len(complete) - 1])
            else:
                timed = emission_times(segment, self.target.code)
                translations.append(
                    self.target.join(word for word, time in timed if time <= end + CLOSE)
                )
        return source.join(words), self.target.separator.join(text for text in translations if text)

    def _find_windows(self, kind: Kind, count: int) -> "_Windows":
        """Return the possible starts and ends of examples of ``count`` sentences.

        Raises ZooError if no example is possible.
        """
        positions: list[tuple[int, int, int]] = []
        bounds: list[tuple[float, ...]] = []
        earliest, latest = self._ranges.get(kind, (0.0, np.inf))
        end = 0.0  # position after the talk
        for index, talk in enumerate(self.talks):
            durations = (segment.duration for segment in talk.outline)
            *starts, end = accumulate(durations, initial=end)
            for first in range(len(talk.segments) - count + 1):
                last = first + count - 1
                if earliest <= starts[first] and starts[last] < latest:
                    positions.append((index, first, last))
                    bounds.append(self._window(talk, first, last, whole=kind == "non_streaming"))
        windows = _Windows.of(
            np.array(positions).reshape(-1, 3),
            np.array(bounds).reshape(-1, 4),
            self.config.max_seconds,
        )
        if not len(windows.positions):
            where = " among the sentences that hours leaves them" if kind in self._ranges else ""
            raise ZooError(
                f"The talks have no {count} consecutive sentences for {kind} chains of "
                f"thought of at most {self.config.max_seconds} s{where}."
            )
        return windows

    def _window(
        self, talk: Talk, first: int, last: int, *, whole: bool
    ) -> tuple[float, float, float, float]:
        """Return the bounds of an example of the segments ``first`` to ``last`` of a talk.

        Args:
            talk: the talk.
            first: index of the first segment.
            last: index of the last segment.
            whole: whether the example has whole sentences.

        Returns:
            Earliest and latest start, earliest and latest end, in seconds from the start of the
            talk.
        """
        segments, config = talk.outline, self.config
        begin, end = segments[first], segments[last]
        previous_end = segments[first - 1].end if first else 0.0
        latest_start = begin.offset
        if begin.words:
            word = begin.words[0]
            latest_start = word.start + config.missing * (word.end - word.start)
        earliest_start = min(max(previous_end, begin.offset - config.silence), latest_start)

        following = segments[last + 1] if last + 1 < len(segments) else None
        if whole:
            earliest_end = end.end + config.settled
            limit = _latest_end(talk, following, earliest_end)
            latest_end = min(earliest_end + max(config.silence, GRID), limit)
        else:
            earliest_end = segments[last - 1].end if last > first else earliest_start + GRID
            limit = following.offset + config.reach if following else talk.duration
            latest_end = min(limit, end.end + config.silence + config.reach, talk.duration)
        return earliest_start, latest_start, earliest_end, max(latest_end, earliest_end)


def _latest_end(talk: Talk, following: Segment | None, earliest: Seconds) -> Seconds:
    """Return the latest end of an example of whole sentences.

    The first word of the next sentence is not transcribed, so the example ends before the word
    does. Without word times, or after the last sentence, the latest end is at least one ``GRID``
    after the earliest one, so that some multiple of it fits.

    Args:
        talk: Talk of the example.
        following: Next sentence of the talk.
        earliest: Earliest end of the example.
    """
    if following is None:
        return max(talk.duration, earliest + GRID)
    if following.words:
        return following.words[0].end - 2 * CLOSE
    return max(following.offset, earliest + GRID)


@dataclass(frozen=True, slots=True)
class _Windows:
    """Possible positions of examples.

    Attributes:
        positions: (n, 3) index of the talk, of the first segment and of the last segment.
        bounds: (n, 4) earliest and latest start, earliest and latest end, in seconds.
        shortest: (n,) shortest possible duration, a multiple of ``GRID``.
        longest: (n,) longest possible duration, a multiple of ``GRID``.
    """

    positions: np.ndarray
    bounds: np.ndarray
    shortest: np.ndarray
    longest: np.ndarray

    @staticmethod
    def of(positions: np.ndarray, bounds: np.ndarray, max_seconds: Seconds) -> "_Windows":
        """Return the positions with at least one possible duration.

        Args:
            positions: (n, 3) see ``positions`` of the class.
            bounds: (n, 4) see ``bounds`` of the class.
            max_seconds: maximum duration.
        """
        shortest = np.ceil((np.maximum(bounds[:, 2] - bounds[:, 1], GRID) - CLOSE) / GRID) * GRID
        longest = (
            np.floor((np.minimum(bounds[:, 3] - bounds[:, 0], max_seconds) + CLOSE) / GRID) * GRID
        )
        possible = shortest <= longest + CLOSE
        return _Windows(
            positions[possible], bounds[possible], shortest[possible], longest[possible]
        )

    def lengths(
        self, rows: np.ndarray, units: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """Draw a possible duration of each row, uniformly.

        Args:
            rows: (n,) rows of ``positions``.
            units: (n,) unit of which a duration is a multiple; ``GRID`` if no multiple fits.
            random: Only source of randomness.

        Returns:
            (n,) durations in seconds.
        """
        least = np.ceil((self.shortest[rows] - CLOSE) / units)
        most = np.floor((self.longest[rows] + CLOSE) / units)
        units = np.where(least <= most, units, GRID)
        least = np.ceil((self.shortest[rows] - CLOSE) / units)
        most = np.floor((self.longest[rows] + CLOSE) / units)
        lengths: np.ndarray = units * random.integers(
            least.astype(int), most.astype(int), endpoint=True
        )
        return lengths
