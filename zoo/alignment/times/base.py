"""The interface of what finds the times of the words of transcripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from zoo.data.talks import Segment, Talk, Word

if TYPE_CHECKING:
    import torch  # TextGrids need none


@dataclass(frozen=True, slots=True)
class TimedWords:
    """The words of one segment with their times, or the reason why there are none.

    Attributes:
        words: words of the transcript as the corpus writes it, with case and punctuation, in
            seconds from the start of the talk. Empty if there is a problem.
        problem: why the segment has no times; empty if it has.
        score: mean log-probability of a frame (0 is the best); None if the aligner has no score.
    """

    words: tuple[Word, ...] = ()
    problem: str = ""
    score: float | None = None


@runtime_checkable
class WordTimer(Protocol):
    """An aligner of transcripts and audio; its constructor reads no files."""

    def check(self) -> None:
        """Check, before long work starts, that models, packages and folders are there.

        Raises:
            ZooError: something is missing.
        """

    def load(self, device: "torch.device | None" = None) -> None:
        """Load the weights, if there are any; a second call only moves them.

        Args:
            device: device of the network; None: the CPU.

        Raises:
            ZooError: something is missing, damaged or does not fit.
        """

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
