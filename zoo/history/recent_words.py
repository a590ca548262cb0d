"""Fixed-words history of StreamAtt (FW; Papi et al., 2024): keep a fixed number of words."""

from dataclasses import dataclass

from zoo.errors import check_numbers
from zoo.history.attended import AttendedHistory
from zoo.types import Hypothesis


@dataclass(kw_only=True, eq=False)
class RecentWords(AttendedHistory):
    """Keep the last written words.

    Words begin where ``word_starts`` of the backbone is True; in languages without spaces, each
    character is a word.

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
        word_starts = hypothesis.word_starts[:num_written].nonzero()
        return int(word_starts[-self.words]) if word_starts.numel() >= self.words else 0
