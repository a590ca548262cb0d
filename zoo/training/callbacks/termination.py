"""Callback that saves a training when it ends, also when a batch system is about to kill it."""

import logging
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from zoo.errors import TERMINATED

logger = logging.getLogger(__name__)


class SaveAtEnd(Callback):
    """Saves the state of the training after its last step, and after SIGTERM.

    After SIGTERM the current optimizer step is finished first, and the exit code is 143. If one
    rank receives the signal, all ranks save and end. No rank ends before the file is written.

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
            self._save(trainer)
            logger.warning(
                "SIGTERM: the state of step %d is saved in %s", trainer.global_step, self.checkpoint
            )
            sys.exit(TERMINATED)

    def on_train_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Save the last step, which may not be one of those with a regular checkpoint."""
        self._save(trainer)

    def _save(self, trainer: lightning.Trainer) -> None:
        """Save on all ranks and wait until rank 0 has written the file."""
        trainer.save_checkpoint(self.checkpoint, weights_only=False)  # with optimizer
        trainer.strategy.checkpoint_io.teardown()
        trainer.strategy.barrier()

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
