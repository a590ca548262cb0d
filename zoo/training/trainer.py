"""Construction of Lightning's Trainer and of the callbacks that write checkpoints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint

from zoo.base.errors import ZooError
from zoo.systems.lightning.trainer import (
    check_options,
    count_ranks,
    create_trainer,
    is_single,
    on_devices,
    without_messages,
)
from zoo.training.curriculum import EvaluationSteps
from zoo.training.ddp import DDP
from zoo.training.fsdp2 import FSDP2
from zoo.training.precision import check_precision
from zoo.training.strategy import ZeRO
from zoo.training.writing import BackgroundWriter

# Arguments that the training sets, and what the user can do instead or the reason.
SET_BY = {
    "max_steps": "use training.curriculum.stages.NAME.steps instead",
    "logger": "use logger=NAME instead",
    "default_root_dir": "use hydra.run.dir instead",
    "use_distributed_sampler": "the batches of each device are distinct",
    "enable_model_summary": "use trainer.callbacks instead",
    "limit_val_batches": "use training.dev_talks instead",
}
# Beginnings of the names of Lightning's strategies, and the strategies that replace them.
REPLACED = {
    "deepspeed": "strategy=deepspeed_stage_2",
    "fsdp": "strategy=fsdp2",
}


def make_trainer(options: Mapping[str, Any], **arguments: Any) -> lightning.Trainer:
    """Create a Lightning Trainer.

    Several devices without a chosen strategy run ``zoo.training.ddp.DDP``.

    Args:
        options: The user's arguments of the Trainer.
        **arguments: Arguments of the Trainer that the training code sets. The user's callbacks are
            added to ``callbacks``.

    Raises:
        ZooError: Lightning refuses an option, the training sets an option itself, ``strategy``
            names a strategy of Lightning that the zoo replaces, the strategy does not support the
            device or the clipping of gradients, or ``precision`` rounds trained weights.
    """
    check_options(options, SET_BY, job="training")
    options = on_devices(options)

    strategy = options.get("strategy", "auto")
    if isinstance(strategy, str) and strategy.startswith(tuple(REPLACED)):
        kind = next(kind for kind in REPLACED if strategy.startswith(kind))
        raise ZooError(
            f"trainer.strategy={strategy} is Lightning's strategy, whose checkpoints cannot be "
            f"resumed; choose {REPLACED[kind]}."
        )
    if strategy == "ddp" or (strategy == "auto" and not is_single(options)):
        strategy = DDP()
    callbacks = arguments.pop("callbacks", ())
    plugins = options.get("plugins") or []
    plugins = plugins if isinstance(plugins, Sequence) else [plugins]
    if not any(isinstance(plugin, CheckpointIO) for plugin in plugins):
        plugins = [*plugins, BackgroundWriter()]
    fixed = {
        "plugins": plugins,
        "use_distributed_sampler": False,
        "enable_model_summary": False,
        "limit_val_batches": 0,  # DevelopmentEvaluation streams talks at given optimizer steps
    }
    trainer = create_trainer({**options, **fixed, **arguments, "strategy": strategy}, callbacks)
    check_precision(trainer)
    if isinstance(trainer.strategy, FSDP2 | ZeRO):
        trainer.strategy.check(trainer)
    return trainer


def check_trainer(options: Mapping[str, Any]) -> None:
    """Raise ZooError for arguments of the Trainer with which ``make_trainer`` raises it.

    Args:
        options: The user's arguments of the Trainer, of which no other Trainer is made.
    """
    with without_messages():
        make_trainer(options, logger=False, max_steps=1)


def batches_per_step(options: Mapping[str, Any]) -> int:
    """Return the number of batches of an optimizer step, over all ranks.

    Args:
        options: The user's arguments of the Trainer.
    """
    return count_ranks(options) * int(options.get("accumulate_grad_batches", 1))


class BestCheckpoints(ModelCheckpoint):
    """Keeps the best of the evaluated states; the last step may be one between two intervals.

    Args:
        steps: Optimizer steps that have an evaluation.
        options: Arguments of ``ModelCheckpoint``.
    """

    def __init__(self, steps: EvaluationSteps, **options: Any) -> None:
        super().__init__(every_n_train_steps=1, **options)
        self._steps = steps

    def on_train_batch_end(self, trainer: lightning.Trainer, *arguments: Any) -> None:
        """Save the state if its step has an evaluation and it is one of the best."""
        if trainer.global_step in self._steps:
            super().on_train_batch_end(trainer, *arguments)


def savers(
    folder: Path, *, save_every_steps: int, steps: EvaluationSteps, monitor: str, keep: int
) -> tuple[ModelCheckpoint, ModelCheckpoint]:
    """Create the callbacks that write checkpoints.

    Args:
        folder: Folder of the checkpoints.
        save_every_steps: Number of optimizer steps between two checkpoints of the last state.
        steps: Optimizer steps that have an evaluation.
        monitor: Logged name of the score that ranks checkpoints; higher is better.
        keep: Number of best checkpoints to keep.

    Returns:
        The callback for the last state, from which a run resumes, and the callback for the best
        checkpoints, which have weights only.
    """
    last = ModelCheckpoint(
        dirpath=folder,
        filename="last",
        every_n_train_steps=save_every_steps,
        enable_version_counter=False,
        save_on_train_epoch_end=False,
    )
    best = BestCheckpoints(
        steps,
        dirpath=folder,
        filename="best-{step}",
        monitor=monitor,
        mode="max",
        save_top_k=keep,
        save_on_train_epoch_end=False,
        save_weights_only=True,
        enable_version_counter=False,  # a resumed run overwrites the files of repeated steps
    )
    return last, best
