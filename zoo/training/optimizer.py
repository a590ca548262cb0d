"""The optimizer of a training: what a configuration names, and groups of weights that rest."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from lightning.pytorch.strategies import Strategy
from torch import nn
from torch.optim import AdamW, Optimizer

from zoo.base.errors import ZooError
from zoo.base.kinds import path_of
from zoo.config.mistakes import one_line
from zoo.training.muon import MuonAdamW, loss_of
from zoo.training.sharding import ShardedStrategy

# Creates an optimizer from groups of weights, at a learning rate of 1.
OptimizerFactory = Callable[..., Optimizer]
# The optimizer of conf/optimizer/adamw.yaml.
ADAMW: OptimizerFactory = partial(AdamW, betas=(0.9, 0.98))
OPTIMIZER = "optimizer"  # entry of a checkpoint: dotted path of the class of the optimizer


def create_optimizer(
    factory: OptimizerFactory, groups: Sequence[Mapping[str, Any]], strategy: Strategy | None = None
) -> Optimizer:
    """Create an optimizer that skips groups with a learning rate of 0.

    The learning rate is 1, because the schedule multiplies it by the rates of the stages.

    Args:
        factory: Creates the optimizer.
        groups: Groups of weights.
        strategy: Strategy of the training.

    Raises:
        ZooError: The factory refuses its settings or creates no optimizer, or the strategy divides
            matrices that the optimizer needs whole.
    """
    try:
        optimizer = factory([dict(group) for group in groups], lr=1.0)
    except (TypeError, ValueError, AttributeError) as error:
        raise ZooError(f"The optimizer refuses its settings: {one_line(error)}") from error
    if not isinstance(optimizer, Optimizer):
        raise ZooError(
            f"optimizer._target_ creates a {type(optimizer).__name__}, which is no "
            "torch.optim.Optimizer."
        )
    if isinstance(optimizer, MuonAdamW) and isinstance(strategy, ShardedStrategy):
        raise ZooError(
            "optimizer=muon needs whole matrices, which strategy=fsdp2... and "
            "strategy=deepspeed_... divide among the ranks; choose strategy=auto."
        )
    optimizer.__class__ = resting(type(optimizer))
    return optimizer


def check_optimizer(factory: OptimizerFactory, strategy: Strategy | None = None) -> str:
    """Check an optimizer as ``create_optimizer`` does, before weights are loaded.

    Returns:
        Dotted path of its class.
    """
    weights = [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))]
    return path_of(type(create_optimizer(factory, [{"params": weights}], strategy)))


class Resting(Optimizer):
    """An optimizer that skips groups with a learning rate of 0: weights, states, counts stay.

    Every optimizer of PyTorch skips frozen parameters, because they have no gradient. Under ZeRO
    they have a gradient of zeros, which would decay the moments.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the groups with a learning rate above 0.

        Args:
            closure: Function that computes the loss and the gradients.

        Returns:
            The result of ``closure``, or None without it.
        """
        loss = loss_of(closure)  # once, because it clips and clears the gradients of all groups
        groups = self.param_groups
        self.param_groups = [group for group in groups if group["lr"] != 0]
        if self.param_groups:
            super().step()
        self.param_groups = groups
        return loss


def resting(kind: type[Optimizer]) -> type[Optimizer]:
    """Return a class of optimizers, under its own name, whose groups rest."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (Resting, kind), names)


def check_same_optimizer(optimizer: str, checkpoint: Mapping[str, Any]) -> None:
    """Raise ZooError if a checkpoint has the states of another optimizer.

    Args:
        optimizer: Dotted path of the class of this training's optimizer.
        checkpoint: Lightning checkpoint.
    """
    before = checkpoint.get(OPTIMIZER, path_of(AdamW))  # earlier versions had no other optimizer
    if before != optimizer:
        raise ZooError(
            f"The checkpoint has the states of {before}, not of {optimizer}; resume with the "
            "optimizer of the first start."
        )
