"""Punctuation history of StreamAtt (P): keep the text of the current sentence.

Papi et al. (2024), "StreamAtt". The backbone marks the ends of sentences (``sentence_ends``), which
may include the full stop of an abbreviation or a number.
"""

from typing import Literal

from zoo.errors import ZooError
from zoo.history.attended import AlignedRows, AttendedHistory, CutMoment
from zoo.types import Hypothesis, Seconds

KEEPS = ("after", "sentence")


class Punctuation(AttendedHistory):
    """Keep the text after the last strong punctuation mark.

    Args:
        keep: What to keep when the text ends with a punctuation mark. ``after``: nothing
            (FBK-fairseq). ``sentence``: the last sentence, until another word follows
            (simulstream).
        cut: See :class:`AttendedHistory`, also for the other arguments.

    Raises:
        ZooError: A value is out of range or not one of the choices.
    """

    def __init__(
        self,
        *,
        keep: Literal["after", "sentence"] = "after",
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
        if keep not in KEEPS:
            raise ZooError(f"Punctuation needs keep to be {' or '.join(KEEPS)}, not {keep}.")
        self.keep = keep

    def first_kept(self, hypothesis: Hypothesis, written: int) -> int:
        """Return the token after the last sentence end; see ``AttendedHistory``.

        Raises:
            ValueError: The hypothesis has no ``sentence_ends``.
        """
        if hypothesis.sentence_ends is None:
            raise ValueError("The backbone returned no sentence_ends.")
        last = written if self.keep == "after" else written - 1
        ends = hypothesis.sentence_ends[: max(last, 0)].nonzero()
        return int(ends[-1]) + 1 if ends.numel() else 0
