"""StreamAtt's history of the present sentence (Papi et al., 2024, "StreamAtt", P). Knows no network.

What ends a sentence is the backbone's to say (``sentence_ends``): the full stop of an abbreviation or a number may.
"""

from typing import Literal

from zoo.errors import ZooError
from zoo.history.attended import Attended, Moment, Rows
from zoo.types import Hypothesis, Seconds

KEEPS = ("after", "sentence")


class Punctuation(Attended):
    """Keep what follows the last strong punctuation; see :class:`Attended` for the audio and the other settings.

    keep: ``after`` (FBK-fairseq): when the text ends in punctuation, nothing is kept. ``sentence`` (simulstream): the
    last sentence is kept until a word follows it.
    """

    def __init__(
        self,
        *,
        keep: Literal["after", "sentence"] = "after",
        cut: Moment = "with_text",
        rows: Rows = "kept",
        min_seconds: Seconds = 0.0,
        max_seconds: Seconds = 28.8,
        max_tokens: int = 128,
    ) -> None:
        """Raises ZooError for values that make no sense."""
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
        """The token after the last one that ends a sentence. Raises ValueError without ``sentence_ends``."""
        if hypothesis.sentence_ends is None:
            raise ValueError("The backbone answered without sentence_ends.")
        last = written if self.keep == "after" else written - 1
        ends = hypothesis.sentence_ends[: max(last, 0)].nonzero()
        return int(ends[-1]) + 1 if ends.numel() else 0
