"""Fixed-words history of StreamAtt (FW; Papi et al., 2024): keep a fixed number of words."""

from dataclasses import dataclass

from torch import Tensor

from zoo.base.errors import check_numbers
from zoo.base.types import Hypothesis
from zoo.history.attended import AttendedHistory


@dataclass(kw_only=True, eq=False)
class RecentWords(AttendedHistory):
    """Keep the last written words.

    Words begin where ``word_starts`` of the backbone is True; in languages without spaces, each
    character is a word. InfiniSST's baseline also drops the word before an incomplete last word.

    Args:
        words: Number of words to keep.
        cut: See :class:`AttendedHistory`, also for the other arguments.

    Raises:
        ZooError: A value is out of range or not one of the choices.
    """

    words: int

    def __post_init__(self) -> None:
        AttendedHistory.__post_init__(self)
        check_numbers("RecentWords", least=1, words=self.words)

    def first_kept(self, hypothesis: Hypothesis, num_written: int) -> int:
        """Return the start of the last ``words`` words, or 0 if there are fewer words."""
        return start_of_last_words(hypothesis.word_starts[:num_written], self.words)


def start_of_last_words(word_starts: Tensor, words: int) -> int:
    """Return the index of the token at which the last ``words`` words begin.

    Args:
        word_starts: (n,) bool, True where a token begins a word.
        words: Number of words, at least 1. If there are fewer, the index is 0.
    """
    starts = word_starts.nonzero()
    return int(starts[-words]) if starts.numel() >= words else 0
