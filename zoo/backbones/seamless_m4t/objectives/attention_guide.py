"""Guided attention: a loss that pulls attention to where it should be, in training alone."""

from torch import Tensor

LEAST_MASS = 1e-4  # of attention; below, the gradient is 0


def guide_loss(attention: Tensor, mask: Tensor) -> Tensor:
    """Mean of -log of the attention that lies inside a mask.

    Args:
        attention: (batch, queries, keys) attention.
        mask: (batch, queries, keys) bool; queries whose row is empty are left out.

    Returns:
        The mean over queries; 0 where all rows are empty.
    """
    mass = (attention.float() * mask).sum(dim=-1)[mask.any(dim=-1)]
    return -mass.clamp_min(LEAST_MASS).log().sum() / max(1, len(mass))
