"""The interface of what finds the times of the words of transcripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from zoo.alignment.base import Loadable
from zoo.base.talks import Segment, Talk, Word


@dataclass(frozen=True, slots=True)
class TimedWords:
    """The words of one segment with their times, or the reason why there are none.

    Attributes:
        words: words of the transcript as the corpus writes it, with case and punctuation, in
            seconds from the start of the talk. Empty if there is a problem.
        problem: why the segment has no times; empty if it has.
        score: mean log-probability of a frame or token (0 is the best); None if the aligner has no
            score.
    """

    words: tuple[Word, ...] = ()
    problem: str = ""
    score: float | None = None


@runtime_checkable
class WordTimer(Loadable, Protocol):
    """An aligner of transcripts and audio; its constructor reads no files."""

    def times(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        """Find the times of the words of segments.

        Args:
            talk: talk of the segments.
            segments: segments with transcripts; their ``words`` are ignored.

        Returns:
            One result per segment, in their order.

        Raises:
            ZooError: a file cannot be read.
        """


@runtime_checkable
class CorpusTimer(WordTimer, Protocol):
    """An aligner that aligns all talks of a split at once, before ``times`` returns its results."""

    def align_corpus(self, talks: Sequence[tuple[Talk, Sequence[Segment]]], folder: Path) -> None:
        """Align segments.

        Args:
            talks: talks, each with its segments that will be asked for.
            folder: folder for the files of the aligner, which may hold those of earlier calls.

        Raises:
            ZooError: the aligner fails, or has to be run by the user.
        """
