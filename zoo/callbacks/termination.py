"""Callback that saves a training before a batch system kills it."""

import logging
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from zoo.tracking.launch import TERMINATED

logger = logging.getLogger(__name__)


class SaveOnTermination(Callback):
    """Saves the state of the training after SIGTERM, and ends the process with exit code 143.

    The current optimizer step is finished first. If one rank receives the signal, all ranks save
    and end.

    Args:
        checkpoint: Path of the checkpoint from which the training is resumed.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self._requested = False
        self._handler_before: Any = None

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Replace the handler of SIGTERM; Python allows that in the main thread only."""
        if threading.current_thread() is threading.main_thread():
            self._handler_before = signal.signal(signal.SIGTERM, self._request)

    def on_train_batch_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Save and exit before the next optimizer step, after all callbacks of the last step."""
        if batch_idx % trainer.accumulate_grad_batches:
            return
        if trainer.strategy.reduce_boolean_decision(self._requested, all=False):
            trainer.save_checkpoint(self.checkpoint)
            logger.warning(
                "SIGTERM: the state of step %d is saved in %s", trainer.global_step, self.checkpoint
            )
            sys.exit(TERMINATED)

    def teardown(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str
    ) -> None:
        """Restore the handler of SIGTERM."""
        if self._handler_before is not None:
            signal.signal(signal.SIGTERM, self._handler_before)
            self._handler_before = None

    def _request(self, number: int, frame: FrameType | None) -> None:
        """Note the signal; a second one ends the process at once."""
        if self._requested:
            sys.exit(TERMINATED)
        self._requested = True
