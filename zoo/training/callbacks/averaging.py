"""Evaluations and exports with the averaged weights of Lightning's ``WeightAveraging``."""

from collections.abc import Iterator
from contextlib import contextmanager

import lightning
from lightning.pytorch.callbacks import WeightAveraging

from zoo.base.errors import ZooError
from zoo.training.fsdp2 import FSDP2
from zoo.training.strategy import ZeRO


def check_averaging(trainer: lightning.Trainer) -> None:
    """Raise ZooError if weights are averaged under a strategy that shares them among ranks."""
    if _averages(trainer) and isinstance(trainer.strategy, FSDP2 | ZeRO):
        raise ZooError(
            "The weights of strategy=fsdp2... and strategy=deepspeed_... cannot be averaged; "
            "remove the callback or choose strategy=auto."
        )


@contextmanager
def averaged_weights(
    trainer: lightning.Trainer, module: lightning.LightningModule
) -> Iterator[None]:
    """Give the averaged weights to a module, as Lightning does in its own validation.

    Without a ``WeightAveraging`` callback the module is unchanged.

    Args:
        trainer: Trainer of the training.
        module: Module that is trained.
    """
    averages = _averages(trainer)
    for callback in averages:
        callback.on_validation_epoch_start(trainer, module)
    try:
        yield
    finally:
        for callback in averages:
            callback.on_validation_epoch_end(trainer, module)


def keep_averaged_weights(trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
    """Replace the weights by the averaged ones, also in a resumed training without a step left."""
    for callback in _averages(trainer):
        callback.on_train_end(trainer, module)


def _averages(trainer: lightning.Trainer) -> list[WeightAveraging]:
    """Return the callbacks that average weights."""
    callbacks: list[object] = list(trainer.callbacks)  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, WeightAveraging)]
