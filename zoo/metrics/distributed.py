"""Metrics as ``torchmetrics.Metric``, for Lightning modules that score on several ranks."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from zoo.metrics.sums import SummedMetric, reset


class DistributedMetric(Metric):
    """A metric of the zoo whose sums torchmetrics adds over ranks.

    Args:
        metric: Metric of the zoo, such as ``LAAL()``; it is reset by every update.
        **kwargs: Arguments of ``torchmetrics.Metric``.
    """

    full_state_update = False
    sums: Tensor

    def __init__(self, metric: SummedMetric, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metric = metric
        zeros = torch.zeros(len(metric.sums), dtype=torch.float64)
        self.add_state("sums", zeros, dist_reduce_fx="sum")

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """Whether a higher score is better; None if neither holds."""
        return self.metric.higher_is_better

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add segments; arguments as those of the metric."""
        metric: Any = self.metric
        reset(metric)
        metric.update(*args, **kwargs)
        self.sums += torch.tensor(metric.sums, dtype=torch.float64, device=self.sums.device)

    def compute(self) -> Tensor:
        """Return the score, a float64 scalar."""
        self.metric.sums = self.sums.tolist()
        return torch.tensor(self.metric.compute(), dtype=torch.float64)
