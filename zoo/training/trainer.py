"""Lightning's Trainer and its checkpoints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ModelCheckpoint

from zoo.errors import ZooError


def make_trainer(options: Mapping[str, Any], **given: Any) -> lightning.Trainer:
    """A Trainer with the user's ``options``. Raises ZooError for those that Lightning refuses, and for its DeepSpeed.

    Stages leave parts of the network without gradients, so DDP is told to look for them.
    """
    strategy = options.get("strategy", "auto")
    if isinstance(strategy, str) and strategy.startswith("deepspeed"):
        raise ZooError(
            f"trainer.strategy={strategy} is Lightning's; choose strategy=deepspeed_stage_2, which resumes."
        )
    if strategy == "ddp" or (strategy == "auto" and options.get("devices", 1) != 1):
        strategy = "ddp_find_unused_parameters_true"
    try:
        return lightning.Trainer(
            **{**options, "strategy": strategy},
            use_distributed_sampler=False,
            enable_model_summary=False,
            **given,
        )
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise ZooError(f"Lightning refuses the trainer: {' '.join(str(error).split())}") from error


def savers(
    folder: Path, *, save_every_steps: int, evaluate_every_steps: int, monitor: str, keep: int
) -> tuple[ModelCheckpoint, ModelCheckpoint]:
    """The last state, to go on from, and the ``keep`` best by the ``monitor``, development BLEU."""
    last = ModelCheckpoint(
        dirpath=folder,
        filename="last",
        every_n_train_steps=save_every_steps,
        enable_version_counter=False,
        save_on_train_epoch_end=False,
    )
    best = ModelCheckpoint(
        dirpath=folder,
        filename="best-{step}",
        monitor=monitor,
        mode="max",
        save_top_k=keep,
        every_n_train_steps=evaluate_every_steps,
        save_on_train_epoch_end=False,
        save_weights_only=True,
    )
    return last, best
