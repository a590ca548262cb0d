"""What all metrics have in common: a score that follows from sums over segments.

The sums are Python floats, so scoring needs no torch.
"""

from typing import Protocol


class SummedMetric(Protocol):
    """A metric; its method ``update`` adds segments to the sums.

    Attributes:
        sums: The sums over segments, all 0 before the first update.
        higher_is_better: Whether a higher score is better; None if neither holds.
        unit: Unit of the score, such as ``s``; empty: none.
        digits: Number of decimals that tables show.
    """

    sums: list[float]
    higher_is_better: bool | None
    unit: str
    digits: int

    def compute(self) -> float:
        """Return the score; NaN if it is undefined."""


def reset(metric: SummedMetric) -> None:
    """Remove all segments from a metric."""
    metric.sums = [0.0] * len(metric.sums)


def merge(metric: SummedMetric, other: SummedMetric) -> None:
    """Add the segments of another metric of the same class to a metric."""
    metric.sums = [a + b for a, b in zip(metric.sums, other.sums, strict=True)]
