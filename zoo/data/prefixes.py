"""Beginnings of sentences, to score transcripts and translations of incomplete speech.

StreamUni's paper (appendix C, Table 4) transcribes and translates random beginnings of sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import Seconds
from zoo.data.corpora import Corpus
from zoo.data.trajectories import emission_times
from zoo.data.word_times import transcript_words

References = Literal["prefixes", "alignment"]


@dataclass(kw_only=True, eq=False)
class Prefixes:
    """One beginning of each sentence of another corpus; each is a talk of a single segment.

    The end of the audio is drawn uniformly between the end of the first word and the end of the
    sentence. The transcript has the words that have ended by then.

    Args:
        corpus: corpus with word times.
        target_language: code of the language of the translations.
        references: translations of the beginnings. ``prefixes``: those that the step ``prefixes``
            of a preparation has made of these words alone, as in the paper. ``alignment``: the
            beginning of the translation of the sentence, by its word alignment.
        seed: seed of the ends.
        name: name of the corpus.

    Raises:
        ZooError: a value is unknown or out of range.
    """

    corpus: Corpus
    target_language: str
    references: References = "prefixes"
    seed: int = 0
    name: str = "prefixes"

    def __post_init__(self) -> None:
        check_choice("data.references", self.references, get_args(References))
        check_numbers("data", least=0, seed=self.seed)

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the beginnings of the usable sentences; ``limit`` is a number of whole talks.

        A beginning whose reference is empty, because no word can be translated yet, is left out.
        See ``Corpus``.

        Raises:
            ZooError: a sentence has no word times or no translation of its beginning.
        """
        random = np.random.default_rng(self.seed)
        beginnings = [
            self._cut(talk, index, segment, share=random.uniform())
            for talk in self.corpus.talks(split, limit=limit)
            for index, segment in enumerate(talk.segments)
            if segment.usable and segment.source.strip()
        ]
        return [
            talk
            for talk in beginnings
            if talk.segments[0].targets[self.target_language].text.strip()
        ]

    def _cut(self, talk: Talk, index: int, segment: Segment, *, share: float) -> Talk:
        """Return the beginning of a sentence as a talk.

        Args:
            talk: talk of the sentence.
            index: number of the sentence in its talk.
            segment: the sentence.
            share: share of the time between the end of the first word and that of the sentence
                after which the audio ends.
        """
        if not segment.words:
            raise ZooError(f"Segment {segment.source!r} of talk {talk.name!r} has no word times.")
        source = language(talk.source_language)
        words = transcript_words(segment, source)
        earliest = min(words[0].end, segment.end)
        end = earliest + share * (segment.end - earliest)
        complete = [word.text for word in words if word.end <= end] or [words[0].text]
        is_whole = len(complete) == len(words)
        text = segment.source if is_whole else source.join(complete)
        target = Target(self._translate(segment, len(complete), end, is_whole=is_whole))
        duration = end - segment.offset
        return Talk(
            f"{talk.name}_{index:04d}",
            talk.audio,
            duration,
            talk.source_language,
            (Segment(0.0, duration, text, targets={self.target_language: target}),),
            offset=talk.offset + segment.offset,
            voice=talk.voice,
        )

    def _translate(self, segment: Segment, num_words: int, end: Seconds, *, is_whole: bool) -> str:
        """Return the reference of the first words of a sentence.

        Args:
            segment: the sentence.
            num_words: number of its first words.
            end: end of their audio.
            is_whole: whether they are all.
        """
        target = segment.targets.get(self.target_language)
        if target is None:
            raise ZooError(f"No {self.target_language!r} translation for {segment.source!r}.")
        if is_whole:
            return target.text
        if self.references == "alignment":
            timed = emission_times(segment, self.target_language)
            return language(self.target_language).join(word for word, time in timed if time <= end)
        if len(target.prefixes) < num_words:
            raise ZooError(
                f"Segment {segment.source!r} has no translation of its first {num_words} words; "
                "prepare the corpus with the step prefixes of zoo.apps.prepare, or choose "
                "data.references=alignment."
            )
        return target.prefixes[num_words - 1]
