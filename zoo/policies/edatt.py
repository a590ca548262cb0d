"""EDAtt (Papi et al., 2023, "Attention as a Guide for Simultaneous Speech Translation").

Knows no layers and no heads. The backbone's alignment must be attention as it is (``normalisation: none``), for EDAtt
sums it; the authors leave out the last frame first (``ignore_last: 1``), where attention likes to rest.
"""

import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.policies.attention import AttentionGuided, LastWord
from zoo.types import Frames, Hypothesis


class EDAtt(AttentionGuided):
    """Write up to the first token whose attention on the last ``last_frames`` frames sums to ``alpha`` or more.

    l2_norm: scale each token's attention to length 1 over the frames, as the authors' code does; a sum may then
    exceed 1.
    """

    def __init__(
        self,
        *,
        alpha: float,
        last_frames: Frames = 2,
        l2_norm: bool = True,
        last_word: LastWord = "whole",
    ) -> None:
        """alpha: the threshold; smaller waits longer. last_frames: lambda of the paper. Raises ZooError for values
        that make no sense."""
        super().__init__(last_word=last_word)
        if alpha <= 0 or last_frames < 1:
            raise ZooError(
                f"EDAtt needs alpha above 0 and last_frames of at least 1, not {alpha} and {last_frames}."
            )
        self.alpha = alpha
        self.last_frames = last_frames
        self.l2_norm = l2_norm

    def unstable(self, hypothesis: Hypothesis) -> Tensor:
        """Too much attention on the newest frames."""
        attention = hypothesis.require_alignment()[hypothesis.prefix_length :].float()
        if self.l2_norm:
            length = attention.norm(dim=1, keepdim=True)
            attention = attention / length.clamp_min(torch.finfo(length.dtype).tiny)
        return attention[:, -self.last_frames :].sum(dim=1) >= self.alpha
