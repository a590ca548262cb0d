"""AdamW for training in stages."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import AdamW


class RestingAdamW(AdamW):
    """AdamW that skips groups with a learning rate of 0: weights, moments and step counts stay.

    Plain AdamW skips frozen parameters, because they have no gradient. Under ZeRO they have a
    gradient of zeros, which would decay the moments.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the groups with a learning rate above 0.

        Args:
            closure: Function that computes the loss and the gradients.

        Returns:
            The result of ``closure``, or None without it.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = self.param_groups
        self.param_groups = [group for group in groups if group["lr"] != 0]
        if self.param_groups:
            super().step()
        self.param_groups = groups
        return loss
