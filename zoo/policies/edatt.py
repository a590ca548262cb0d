"""EDAtt: write until the attention of a token on the newest source frames exceeds a threshold.

Papi et al. (2023), "Attention as a Guide for Simultaneous Speech Translation".

EDAtt sums attention weights, so the backbone must not normalise its alignment
(``normalisation: none``). The authors remove the last frame first (``ignore_last: 1``), because it
attracts attention whatever the content.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.base.errors import check_numbers
from zoo.base.types import Frames
from zoo.policies.attention import AttentionGuided


@dataclass(kw_only=True, eq=False)
class EDAtt(AttentionGuided):
    """Write up to the first token with too much attention on the last source frames.

    Args:
        alpha: Threshold on the summed attention. A smaller value waits longer.
        last_frames: Number of last source frames (lambda in the paper).
        l2_norm: Scale the attention of each token to length 1 over the frames, as the authors'
            code does. The sum may then exceed 1.
        last_word: See :class:`AttentionGuided`.

    Raises:
        ZooError: A number is out of range.
    """

    alpha: float
    last_frames: Frames = 2
    l2_norm: bool = True

    def __post_init__(self) -> None:
        AttentionGuided.__post_init__(self)
        check_numbers("EDAtt", above=0, alpha=self.alpha)
        check_numbers("EDAtt", least=1, last_frames=self.last_frames)

    def attends_to_newest(self, attention: Tensor, frames: Tensor) -> Tensor:
        """Mark tokens whose attention on the last frames sums to ``alpha`` or more."""
        frame = torch.arange(attention.shape[1], device=attention.device)
        end = frames[:, None]
        attention = attention.float().masked_fill(frame >= end, 0)
        if self.l2_norm:
            norm = attention.norm(dim=1, keepdim=True)
            attention = attention / norm.clamp_min(torch.finfo(norm.dtype).tiny)
        return attention.masked_fill(frame < end - self.last_frames, 0).sum(dim=1) >= self.alpha
