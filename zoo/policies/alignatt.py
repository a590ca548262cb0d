"""AlignAtt (Papi et al., 2023, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for SimulST").

Knows no layers and no heads: which attention makes the alignment is the backbone's choice.
"""

from torch import Tensor

from zoo.errors import ZooError
from zoo.policies.attention import AttentionGuided, LastWord
from zoo.types import Frames, Hypothesis


class AlignAtt(AttentionGuided):
    """Write up to the first token that attends most to one of the last ``frames`` source frames (section 3)."""

    def __init__(self, *, frames: Frames, last_word: LastWord = "whole") -> None:
        """frames: f of the paper, in frames of the backbone; larger waits longer. Raises ZooError below 1."""
        super().__init__(last_word=last_word)
        if frames < 1:
            raise ZooError(f"AlignAtt needs frames of at least 1, not {frames}.")
        self.frames = frames

    def unstable(self, hypothesis: Hypothesis) -> Tensor:
        """Aligned to the end of what is heard."""
        return hypothesis.attended[hypothesis.prefix :] >= hypothesis.frames - self.frames
