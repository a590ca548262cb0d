"""Word times, from an aligner or from the corpus itself."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.alignment.times.base import CorpusTimer, TimedWords, WordTimer
from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.texts import is_only_sounds
from zoo.base.languages import Language, language
from zoo.base.talks import Segment, Talk, Word
from zoo.data.word_times import transcript_words

if TYPE_CHECKING:
    import torch

REASON, SCORE = "word times", "aligner score"


class GivenTimes:
    """The words of the corpus, such as the output of another aligner, mapped onto the transcript.

    ``zoo.data.word_times`` describes the mapping.
    """

    def check(self) -> None:
        """See ``WordTimer``; nothing can be missing."""

    def load(self, device: "torch.device | None" = None) -> None:
        """See ``WordTimer``; there are no weights."""

    def times(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        """See ``WordTimer``."""
        spoken = language(talk.source_language)
        return [
            TimedWords(tuple(transcript_words(segment, spoken)))
            if segment.words
            else TimedWords(problem="the corpus has no word times")
            for segment in segments
        ]


class WordsStep:
    """Gives the segments the times of their words.

    Segments without letters or digits, and those that trainings cannot use anyway, keep what they
    have. The words of a description of a sound, such as "(Laughter)", take equal parts of its
    segment: no aligner finds them in the audio.

    Args:
        timer: aligner of transcripts and audio.
        folder: folder for the files of an aligner that aligns all talks at once.
    """

    name = "words"

    def __init__(self, timer: WordTimer, folder: Path = Path("words")) -> None:
        self.timer = timer
        self.folder = folder
        self.whole_corpus = isinstance(timer, CorpusTimer)

    def check(self) -> None:
        """See ``Step``."""
        self.timer.check()

    def load(self, device: "torch.device | None" = None) -> None:
        """See ``Step``."""
        self.timer.load(device)

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        if isinstance(self.timer, CorpusTimer):
            pairs = [
                (item.talk, [item.talk.segments[index] for index in _timed(item)[0]])
                for item in items
            ]
            self.timer.align_corpus(pairs, self.folder)
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Item:
        """Return an item with word times."""
        indices, sounds = _timed(item)
        chosen = [item.talk.segments[index] for index in indices]
        segments: dict[int, Segment] = {}
        notes: dict[int, Notes] = {}
        for index, timed in zip(indices, self.timer.times(item.talk, chosen), strict=True):
            segment, note = item.talk.segments[index], item.notes[index]
            if timed.problem or not timed.words:
                note = replace(note, reason=REASON, detail=timed.problem)
            if timed.score is not None:
                note = replace(note, scores={**note.scores, SCORE: round(timed.score, 4)})
            segments[index] = _with_words(segment, timed)
            notes[index] = note
        spoken = language(item.talk.source_language)
        for index in sounds:
            segment = item.talk.segments[index]
            segments[index] = _with_words(segment, TimedWords(_spread(segment, spoken)))
        return item.with_segments(segments, notes)


def _timed(item: Item) -> tuple[list[int], list[int]]:
    """Return the indices of the segments with words, and of descriptions of sounds."""
    pairs = enumerate(zip(item.talk.segments, item.usable, strict=True))
    indices = [
        index
        for index, (segment, usable) in pairs
        if usable and any(map(str.isalnum, segment.source))
    ]
    sounds = [index for index in indices if is_only_sounds(item.talk.segments[index].source)]
    return [index for index in indices if index not in sounds], sounds


def _spread(segment: Segment, spoken: Language) -> tuple[Word, ...]:
    """Return the words of a transcript with equal parts of the segment's duration."""
    texts = spoken.units(segment.source)
    length = segment.duration / len(texts)
    return tuple(
        Word(text, segment.offset + length * index, segment.offset + length * (index + 1))
        for index, text in enumerate(texts)
    )


def _with_words(segment: Segment, timed: TimedWords) -> Segment:
    """Return a segment with words.

    Alignments to other words than these, and translations of their prefixes, are dropped. Case and
    punctuation do not make another word.
    """
    old, new = ([_letters(word) for word in words] for words in (segment.words, timed.words))
    if old == new:
        return replace(segment, words=timed.words)
    targets = {
        code: replace(target, words=(), alignment=(), needs=(), prefixes=())
        for code, target in segment.targets.items()
    }
    return replace(segment, words=timed.words, targets=targets)


def _letters(word: Word) -> str:
    """Return the letters and digits of a word, case-folded."""
    return "".join(filter(str.isalnum, word.text.casefold()))
