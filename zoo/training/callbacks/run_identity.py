"""Callback that stores the id of the run in checkpoints."""

from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from zoo.runs.run import CHECKPOINT_KEY, Run


class RunIdentity(Callback):
    """Stores the run's id in every checkpoint, so that a resumed training continues the same run.

    Args:
        run: the run that writes the checkpoints.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Store the id under ``simulzoo_run``."""
        checkpoint[CHECKPOINT_KEY] = self.run.id
