"""Guided attention: a training loss that concentrates attention on given positions."""

from torch import Tensor

# Smallest attention mass inside the mask: the mass is clamped, so the gradient is 0 below
LEAST_MASS = 1e-4


def guide_loss(attention: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean of -log of the attention mass inside a mask.

    Args:
        attention: (batch, queries, keys) attention weights.
        mask: (batch, queries, keys) bool, True for keys that the query should attend to. Queries
            whose row has no True are left out.

    Returns:
        The mean over queries, in nats; 0 if all queries are left out.
    """
    has_target = mask.any(dim=-1)  # (batch, queries)
    mass = (attention.float() * mask).sum(dim=-1)[has_target]
    return -mass.clamp_min(LEAST_MASS).log().sum() / max(1, len(mass))
