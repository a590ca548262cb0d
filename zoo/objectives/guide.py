"""How far attention is from where it should be: supervision of training alone. Knows no network and no data."""

from torch import Tensor

LEAST_MASS = 1e-4  # of attention; below, the guide pulls no harder


def unlike(attention: Tensor, wanted: Tensor) -> Tensor:
    """Mean of -log of attention (B, T, places) within ``wanted``, (B, T, places) bool, over queries that want one.

    0 where none does.
    """
    mass = (attention.float() * wanted).sum(dim=-1)[wanted.any(dim=-1)]
    return -mass.clamp_min(LEAST_MASS).log().sum() / max(1, len(mass))
