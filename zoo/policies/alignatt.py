"""AlignAtt (Papi et al., 2023, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for SimulST").

Knows no layers and no heads: which attention makes the alignment is the backbone's choice.
"""

import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.policies.attention import AttentionGuided, LastWord
from zoo.types import Frames, Hypothesis


class AlignAtt(AttentionGuided):
    """Write up to the first token that attends most to one of the last ``frames`` source frames (section 3).

    rewind: a token that attends more than so many frames before the one before it makes the whole look void
    (SimulStreaming: 200 of 20 ms); None: alignments may go back.
    """

    def __init__(
        self,
        *,
        frames: Frames,
        rewind: Frames | None = None,
        last_word: LastWord = "whole",
        flush: bool = True,
    ) -> None:
        """frames: f of the paper, in frames of the backbone; larger waits longer. Raises ZooError for values that make
        no sense."""
        super().__init__(last_word=last_word, flush=flush)
        if frames < 1:
            raise ZooError(f"AlignAtt needs frames of at least 1, not {frames}.")
        if rewind is not None and rewind < 1:
            raise ZooError(
                f"AlignAtt needs rewind of at least 1 frame, or null for none, not {rewind}."
            )
        self.frames = frames
        self.rewind = rewind

    def unstable(self, hypothesis: Hypothesis) -> Tensor:
        """Aligned to the end of what is heard; all tokens where the alignment jumps back."""
        attended = hypothesis.attended_frames
        late = attended[hypothesis.prefix_length :] >= hypothesis.num_frames - self.frames
        if self.rewind is not None:
            steps = attended[max(hypothesis.prefix_length - 1, 0) :].diff()
            late |= torch.any(steps < -self.rewind)
        return late
