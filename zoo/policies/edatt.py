"""EDAtt (Papi et al., 2023, "Attention as a Guide for Simultaneous Speech Translation").

Knows no layers and no heads; the alignment must be raw attention, for it sums probabilities.
"""

import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.policies.attention import AttentionGuided, LastWord
from zoo.types import Frames, Hypothesis


class EDAtt(AttentionGuided):
    """Write up to the first token whose attention on the last ``frames`` frames sums to ``alpha`` (section 4.1).

    ignore_last: frames at the end that are left out first (attention likes to rest there); 0 where the backbone has
    left them out already (``alignment.ignore_last``). l2_norm: scale each token's attention to length 1 over the
    frames that remain, as the authors' code does.
    """

    def __init__(
        self,
        *,
        alpha: float,
        frames: Frames = 2,
        ignore_last: Frames = 1,
        l2_norm: bool = True,
        last_word: LastWord = "whole",
    ) -> None:
        """alpha: the threshold; smaller waits longer. frames: lambda of the paper. Raises ZooError for values that
        make no sense."""
        super().__init__(last_word=last_word)
        if alpha <= 0 or frames < 1 or ignore_last < 0:
            raise ZooError(
                f"EDAtt needs alpha above 0, frames of at least 1 and ignore_last of at least 0, not {alpha}, {frames} "
                f"and {ignore_last}."
            )
        self.alpha = alpha
        self.frames = frames
        self.ignore_last = ignore_last
        self.l2_norm = l2_norm

    def unstable(self, hypothesis: Hypothesis) -> Tensor:
        """Too much attention on the newest frames; with no frame to look at, every token is."""
        heard = hypothesis.frames - self.ignore_last
        if heard <= 0:
            return torch.ones(hypothesis.new, dtype=torch.bool)
        attention = hypothesis.aligned[hypothesis.prefix :, :heard].float()
        if self.l2_norm:
            attention = attention / attention.norm(dim=1, keepdim=True).clamp_min(torch.finfo(attention.dtype).tiny)
        return attention[:, -self.frames :].sum(dim=1) >= self.alpha
