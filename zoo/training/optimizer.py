"""AdamW for training in stages. Knows parameter groups, no stages."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import AdamW


class RestingAdamW(AdamW):
    """AdamW that leaves a group with a learning rate of 0 as it is: weights, moments and count of steps.

    Plain AdamW does so too where a frozen parameter has no gradient. Under ZeRO it has one, of zeros, which would wear
    out the moments.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of the groups that do not rest; returns what ``closure`` does."""
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
