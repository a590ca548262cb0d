"""Fixed-words history of StreamAtt (FW; Papi et al., 2024): keep a fixed number of words."""

from zoo.errors import ZooError
from zoo.history.attended import AlignedRows, AttendedHistory, CutMoment
from zoo.types import Hypothesis, Seconds


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

    def __init__(
        self,
        *,
        words: int,
        cut: CutMoment = "with_text",
        rows: AlignedRows = "kept",
        min_seconds: Seconds = 0.0,
        max_seconds: Seconds = 28.8,
        max_tokens: int = 128,
    ) -> None:
        super().__init__(
            cut=cut,
            rows=rows,
            min_seconds=min_seconds,
            max_seconds=max_seconds,
            max_tokens=max_tokens,
        )
        if words < 1:
            raise ZooError(f"RecentWords needs words of at least 1, not {words}.")
        self.words = words

    def first_kept(self, hypothesis: Hypothesis, written: int) -> int:
        """Return the start of the last ``words`` words, or 0 if there are fewer words."""
        word_starts = hypothesis.word_starts[:written].nonzero()
        return int(word_starts[-self.words]) if word_starts.numel() >= self.words else 0
