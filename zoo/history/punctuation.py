"""Punctuation history of StreamAtt (P): keep the text of the current sentence.

Papi et al. (2024), "StreamAtt". The backbone marks the ends of sentences (``sentence_ends``), which
may include the full stop of an abbreviation or a number.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from zoo.base.errors import ZooError, check_choice
from zoo.base.types import Hypothesis
from zoo.history.attended import AttendedHistory

Keep = Literal["after", "sentence"]


@dataclass(kw_only=True, eq=False)
class Punctuation(AttendedHistory):
    """Keep the current sentence: the text after the last strong punctuation mark.

    Args:
        keep: What to keep when the text ends with a punctuation mark. ``sentence``: the last
            sentence, until another word follows (simulstream). ``after``: nothing (FBK-fairseq),
            only with ``rows="hypothesis"``: tokens that are not yet written then select the audio.
            The policy of FBK-fairseq never writes the last word (``policy.last_word=dropped``), so
            that there are such tokens; without them the end of the last word stays in the audio
            and is often translated again.
        cut: See :class:`AttendedHistory`, also for the other arguments.

    Raises:
        ZooError: A value is out of range or not one of the choices, or ``keep`` is ``after``
            without ``rows="hypothesis"``.
    """

    keep: Keep = "sentence"

    def __post_init__(self) -> None:
        AttendedHistory.__post_init__(self)
        check_choice("keep of Punctuation", self.keep, get_args(Keep))
        if self.keep == "after" and self.rows != "hypothesis":
            raise ZooError(
                "history.keep=after may keep no text, and needs history.rows=hypothesis, as in "
                "FBK-fairseq (with policy.last_word=dropped); choose that, or "
                "history.keep=sentence."
            )

    def first_kept(self, hypothesis: Hypothesis, num_written: int) -> int:
        """Return the token after the last sentence end; see ``AttendedHistory``.

        Raises:
            ValueError: The hypothesis has no ``sentence_ends``.
        """
        if hypothesis.sentence_ends is None:
            raise ValueError("The backbone returned no sentence_ends.")
        last = num_written if self.keep == "after" else num_written - 1
        ends = hypothesis.sentence_ends[: max(last, 0)].nonzero()
        return int(ends[-1]) + 1 if ends.numel() else 0
