"""Data types of trained weights: an update must be able to change them.

A bfloat16 number has 8 significant bits, so an update below 1/512 of a weight is lost. With the
learning rates of fine-tuning this is nearly every update.
"""

from collections.abc import Iterable

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.plugins.precision import HalfPrecision
from lightning.pytorch.strategies import DeepSpeedStrategy, Strategy
from torch import nn

from zoo.base.errors import ZooError

SIGNIFICANT = 4  # bytes of the smallest data type whose weights are trained


def keeps_float32_copies(strategy: Strategy) -> bool:
    """Return whether a strategy updates float32 copies of weights of another data type."""
    return isinstance(strategy, DeepSpeedStrategy)


def check_precision(trainer: Trainer) -> None:
    """Check that the precision of a Trainer leaves trained weights in float32.

    Raises:
        ZooError: The precision converts all weights to 16 bits, and no float32 copies are updated.
    """
    plugin = trainer.precision_plugin
    if isinstance(plugin, HalfPrecision) and not keeps_float32_copies(trainer.strategy):
        mixed = plugin.precision.replace("true", "mixed")
        raise ZooError(
            f"trainer.precision={plugin.precision} rounds all weights to 16 bits, in which most "
            f"updates are lost; choose trainer.precision={mixed}, or strategy=deepspeed_stage_2, "
            "which updates float32 copies."
        )


def widen(parameters: Iterable[nn.Parameter]) -> None:
    """Convert the parameters with floating-point types of 16 bits to float32, in place."""
    for parameter in parameters:
        if parameter.is_floating_point() and parameter.element_size() < SIGNIFICANT:
            parameter.data = parameter.data.to(torch.float32)
