"""Clips of target speech for training: translations of excerpts, synthesised by espeak-ng.

All clips of a training are a pure function of a seed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.data.excerpts import Excerpt
from zoo.data.sampling import Pass, Sampler, Sampling, Stretches
from zoo.data.utterances import SpokenLine, read_utterances

DEVELOPMENT_CLIPS = 200  # maximum number of clips of the development talks


@dataclass(frozen=True, slots=True)
class Clip:
    """An excerpt of a talk and its translation as speech.

    Attributes:
        excerpt: source audio and translation.
        samples: (n,) float32 at 16 kHz, n a multiple of 320.
        words: words of the translation (``excerpt.target``) in seconds from the first sample.
        phonemes: phonemes of the translation in seconds from the first sample.
        voice: name of the voice of espeak-ng.
    """

    excerpt: Excerpt
    samples: Tensor = field(compare=False, repr=False)
    words: tuple[Word, ...]
    phonemes: tuple[Word, ...]
    voice: str

    @property
    def seconds(self) -> Seconds:
        """Duration of the target speech in seconds."""
        return len(self.samples) / SAMPLE_RATE


@dataclass(frozen=True, kw_only=True)
class ClipConfig(Sampling):
    """How clips are drawn.

    Attributes:
        count: number of clips.
        fragments: share of clips with 1 to ``longest`` consecutive target words from any position,
            like the text that is emitted in streaming. The other clips have whole sentences.
        longest: maximum number of words of a fragment.
        pairs: share of the clips of whole sentences that have two consecutive sentences.
        shuffled: share of clips with words in random order, so that a word can only be recognised
            by its sound.
        margin: maximum duration of the source audio before the first and after the last aligned
            source word, in seconds.
        voices: voices of espeak-ng, drawn uniformly.
        rates: smallest and largest rate in words per minute.
        pitches: smallest and largest pitch on espeak-ng's scale of 0-99.
        ranges: smallest and largest pitch range on that scale; 0 is monotone.
        seed: seed of all choices.
    """

    count: int = 10_000
    fragments: float = 0.5
    longest: int = 18
    pairs: float = 0.25
    shuffled: float = 0.0
    margin: Seconds = 0.2
    voices: Sequence[str] = ("de",)
    rates: Sequence[int] = (165, 165)
    pitches: Sequence[int] = (60, 60)
    ranges: Sequence[int] = (0, 0)
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ZooError for shares outside 0 to 1, invalid numbers and invalid ranges."""
        owner = type(self).__name__
        shares = {"fragments": self.fragments, "pairs": self.pairs, "shuffled": self.shuffled}
        check_numbers(owner, least=0, most=1, **shares)
        check_numbers(owner, least=1, count=self.count, longest=self.longest)
        check_numbers(owner, least=0, margin=self.margin)
        if not self.voices:
            raise ZooError("Clips of target speech need at least one voice.")
        for name in ("rates", "pitches", "ranges"):
            span = list(getattr(self, name))
            if len(span) != 2 or not 0 <= span[0] <= span[1]:
                raise ZooError(f"{name} of clips is two whole numbers, least and most, not {span}.")

    def for_development(self) -> Self:
        """Return the options with at most ``DEVELOPMENT_CLIPS`` clips."""
        return replace(self, count=min(self.count, DEVELOPMENT_CLIPS))

    def sampler(
        self,
        talks: Sequence[Talk],
        *,
        target: Language,
        chunk_seconds: Seconds,
        stretches: Stretches = Stretches(),  # noqa: B008 (frozen)
    ) -> "Clips":
        """Clips of these talks. Raises ZooError as ``Clips`` does."""
        return Clips(talks, target, self)


class Clips(Sampler):
    """All clips of a training, in the order in which they were drawn.

    The clips are synthesised into the cache folder.

    Args:
        talks: talks with translations.
        language: target language.
        config: how clips are drawn.
        cache: root of the cache folders (None: the default).

    Raises:
        ZooError: the talks have no segments or no translation, or espeak-ng refuses a text.
    """

    def __init__(
        self,
        talks: Sequence[Talk],
        language: Language,
        config: ClipConfig,
        *,
        cache: Path | None = None,
    ) -> None:
        self.config = config
        self.excerpts, lines = _drawn(talks, language, config)
        self._voices = [line.voice for line in lines]
        self._utterances = read_utterances(lines, cache=cache)
        self._seconds = self._utterances.samples / SAMPLE_RATE

    def __len__(self) -> int:
        return len(self.excerpts)

    def __getitem__(self, index: int) -> Clip:
        words, phonemes = self._utterances.times(index)
        samples = torch.from_numpy(self._utterances.speech(index))
        return Clip(self.excerpts[index], samples, words, phonemes, self._voices[index])

    def __iter__(self) -> Iterator[Clip]:
        return (self[index] for index in range(len(self)))

    @property
    def duration(self) -> Seconds:
        """Seconds of target speech in total."""
        return float(self._seconds.sum())

    @property
    def kinds(self) -> Sequence[float]:
        """All clips are of one kind."""
        return [1.0]

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """List all clips by their indices; see ``Sampler``."""
        indices = np.arange(len(self))
        return Pass(indices, self._seconds, np.zeros_like(indices))

    def examples(self, kind: int, positions: np.ndarray, random: np.random.Generator) -> list[Clip]:
        """Return clips by their indices; see ``Sampler``."""
        return [self[index] for index in positions.tolist()]


def _drawn(
    talks: Sequence[Talk], language: Language, config: ClipConfig
) -> tuple[list[Excerpt], list[SpokenLine]]:
    for segment in (segment for talk in talks for segment in talk.segments):
        if language.code not in segment.targets:
            raise ZooError(
                f"No {language.code!r} translation for {segment.source!r}; "
                f"it has: {', '.join(segment.targets)}."
            )
    segments = [
        (talk, index)
        for talk in talks
        for index, segment in enumerate(talk.segments)
        if any(map(_audible, _words(segment, language)))
    ]
    if not segments:
        raise ZooError("The talks have no translated segments for clips of target speech.")
    drawn = [
        _draw(np.random.default_rng([config.seed, index]), segments, language, config)
        for index in range(config.count)
    ]
    return [excerpt for excerpt, _ in drawn], [line for _, line in drawn]


def _draw(
    random: np.random.Generator,
    segments: Sequence[tuple[Talk, int]],
    language: Language,
    config: ClipConfig,
) -> tuple[Excerpt, SpokenLine]:
    talk, index = segments[int(random.integers(len(segments)))]
    if random.random() < config.fragments:
        excerpt = _fragment(random, talk, index, language, config)
    else:
        count = 2 if random.random() < config.pairs else 1
        excerpt = _sentences(random, talk, index, count, language, config)
    line = SpokenLine(
        words=excerpt.target,
        voice=str(config.voices[int(random.integers(len(config.voices)))]),
        rate=_between(random, config.rates),
        pitch=_between(random, config.pitches),
        pitch_range=_between(random, config.ranges),
        seed=int(random.integers(2**31)),
    )
    return excerpt, line


def _sentences(
    random: np.random.Generator,
    talk: Talk,
    first: int,
    count: int,
    language: Language,
    config: ClipConfig,
) -> Excerpt:
    """Return an excerpt of ``count`` whole segments of a talk, with silence around them."""
    segments = talk.segments[first : first + count]
    before = talk.segments[first - 1].end if first else 0.0
    follow = talk.segments[first + count : first + count + 1]
    after = follow[0].offset if follow else talk.duration
    start, end = segments[0].offset, segments[-1].end
    start = max(min(before, start), start - random.uniform(0, config.margin))
    end = min(max(after, end), end + random.uniform(0, config.margin))
    words = [word for segment in segments for word in _words(segment, language)]
    return _excerpt(random, talk, (start, end), words, language, config)


def _fragment(
    random: np.random.Generator, talk: Talk, first: int, language: Language, config: ClipConfig
) -> Excerpt:
    """Return consecutive target words from segment ``first`` on, with their source audio."""
    skipped = int(random.integers(len(_words(talk.segments[first], language))))
    count = int(random.integers(1, config.longest, endpoint=True))
    taken: list[tuple[Segment, int]] = []
    for segment in talk.segments[first:]:
        taken += [(segment, index) for index in range(len(_words(segment, language)))]
        if len(taken) >= skipped + count:
            break
    taken = taken[skipped : skipped + count]
    words = [_words(segment, language)[index] for segment, index in taken]
    silent = next((index for index, word in enumerate(words) if _audible(word)), len(words))
    if silent == len(words):  # punctuation only
        return _sentences(random, talk, first, 1, language, config)
    start, end = _span(taken[silent:], language)
    start = max(0.0, start - random.uniform(0, config.margin))
    end = min(talk.duration, end + random.uniform(0, config.margin))
    return _excerpt(random, talk, (start, end), words[silent:], language, config)


def _span(taken: Sequence[tuple[Segment, int]], language: Language) -> tuple[Seconds, Seconds]:
    """Return start and end of the source audio of some target words.

    They are those of the first and the last aligned source word, or of the segments if no word is
    aligned.

    Args:
        taken: segment of each target word, and index of the word in the segment.
        language: target language.
    """
    sources: list[Word] = []
    for segment, index in taken:
        alignment = segment.targets[language.code].alignment
        if index < len(alignment):
            sources += [segment.words[source] for source in alignment[index]]
    if not sources:
        segments = [segment for segment, _ in taken]
        return segments[0].offset, segments[-1].end
    return min(source.start for source in sources), max(source.end for source in sources)


def _excerpt(
    random: np.random.Generator,
    talk: Talk,
    span: tuple[Seconds, Seconds],
    target: list[str],
    language: Language,
    config: ClipConfig,
) -> Excerpt:
    start, end = span
    if random.random() < config.shuffled:
        random.shuffle(target)
    touched = (segment for segment in talk.segments if segment.end > start and segment.offset < end)
    source = tuple(
        word.text
        for segment in touched
        for word in segment.words
        if start <= word.start and word.end <= end
    )
    return Excerpt(talk, start, end, source, tuple(target), language)


def _between(random: np.random.Generator, span: Sequence[int]) -> int:
    """Draw a whole number from the first to the second number of ``span``."""
    return int(random.integers(span[0], span[1], endpoint=True))


def _words(segment: Segment, language: Language) -> Sequence[str]:
    """Return the target words of a segment."""
    target = segment.targets[language.code]
    return target.words or language.units(target.text)


def _audible(word: str) -> bool:
    """Return whether a word has a letter or a digit, so that espeak-ng speaks it."""
    return any(map(str.isalnum, word))
