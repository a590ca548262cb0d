"""StreamAtt's history of a fixed number of words (Papi et al., 2024, "StreamAtt", FW). Knows no network."""

from zoo.errors import ZooError
from zoo.history.attended import Attended, Moment, Rows
from zoo.types import Hypothesis, Seconds


class RecentWords(Attended):
    """Keep the last ``words`` written words; see :class:`Attended` for the audio and the other settings.

    A word is what the backbone says begins one (``word_starts``): a character in languages without spaces.
    """

    def __init__(
        self,
        *,
        words: int,
        cut: Moment = "with_text",
        rows: Rows = "kept",
        min_seconds: Seconds = 0.0,
        max_seconds: Seconds = 28.8,
        max_tokens: int = 128,
    ) -> None:
        """Raises ZooError for fewer than one word and for other values that make no sense."""
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
        """The beginning of the last ``words`` words, or 0 where there are fewer."""
        begins = hypothesis.word_starts[:written].nonzero()
        return int(begins[-self.words]) if begins.numel() >= self.words else 0
