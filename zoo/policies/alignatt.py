"""AlignAtt: write until a token attends most to one of the newest source frames.

Papi et al. (2023), "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for
Simultaneous Speech Translation".
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.errors import check_numbers
from zoo.policies.attention import AttentionGuided
from zoo.types import Frames, Hypothesis


@dataclass(kw_only=True, eq=False)
class AlignAtt(AttentionGuided):
    """Write up to the first token that attends most to one of the last source frames (section 3).

    Args:
        frames: Number of last source frames that stop writing (f in the paper), in frames of the
            backbone. A larger value waits longer.
        rewind: Write nothing if a token before the first one that stops writing attends more than
            this many frames before the previous token (SimulStreaming: 200 frames of 20 ms; later
            tokens are not generated there). None: alignments may go back.
        last_word: See :class:`AttentionGuided`.
        flush: See :class:`AttentionGuided`.

    Raises:
        ZooError: A number of frames is below 1.
    """

    frames: Frames
    rewind: Frames | None = None
    flush: bool = True

    def __post_init__(self) -> None:
        AttentionGuided.__post_init__(self)
        check_numbers("AlignAtt", least=1, frames=self.frames, rewind=self.rewind)

    def attends_to_newest(self, attention: Tensor, frames: Tensor) -> Tensor:
        """Mark tokens aligned to one of the last ``frames`` frames."""
        padding = torch.arange(attention.shape[1], device=attention.device) >= frames[:, None]
        attended = attention.masked_fill(padding, -torch.inf).argmax(dim=1)
        return attended >= frames - self.frames

    def unstable(self, hypothesis: Hypothesis) -> Tensor:
        """Mark tokens that attend to the newest frames; see ``AttentionGuided.unstable``.

        If a token before the first marked one jumps back (``rewind``), all tokens are marked.
        """
        unstable = super().unstable(hypothesis)
        if self.rewind is not None:
            attended = hypothesis.attended_frames
            marked = unstable.nonzero()
            stable = int(marked[0]) if marked.numel() else len(unstable)
            begin = max(hypothesis.prefix_length - 1, 0)
            steps = attended[begin : hypothesis.prefix_length + stable].diff()
            unstable |= torch.any(steps < -self.rewind)
        return unstable
