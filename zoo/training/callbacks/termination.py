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

from zoo.base.machine.signals import CODES, leave_terminal

logger = logging.getLogger(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class SaveAtEnd(Callback):
    """Saves the state of the training after its last step, and after SIGTERM or SIGHUP.

    After a signal the current optimizer step is finished first, and the exit code is that of the
    signal (143 and 129). If one rank receives it, all ranks save and end. No rank ends before the
    file is written. A signal that the starting program ignores, as nohup does, stays ignored.

    Args:
        checkpoint: Path of the checkpoint from which the training is resumed.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self._requested: signal.Signals | None = None
        self._handlers_before: dict[signal.Signals, Any] = {}

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Replace the handlers of the signals; Python allows that in the main thread only."""
        if threading.current_thread() is threading.main_thread():
            self._handlers_before = {
                number: signal.signal(number, self._request)
                for number in SIGNALS
                if signal.getsignal(number) != signal.SIG_IGN
            }

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
        if trainer.strategy.reduce_boolean_decision(self._requested is not None, all=False):
            self._save(trainer)
            number = self._requested or signal.SIGTERM  # of another rank
            logger.warning(
                "%s: the state of step %d is saved in %s",
                number.name,
                trainer.global_step,
                self.checkpoint,
            )
            sys.exit(CODES[number])

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
        """Restore the handlers of the signals."""
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        self._handlers_before = {}

    def _request(self, number: int, frame: FrameType | None) -> None:
        """Note the signal; a second one ends the process at once."""
        if self._requested:
            sys.exit(CODES[signal.Signals(number)])
        self._requested = signal.Signals(number)
        leave_terminal(number)
