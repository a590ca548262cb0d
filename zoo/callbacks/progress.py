"""The progress of a training: a bar on a terminal, lines elsewhere."""

import logging
import sys
import time
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.callbacks.progress.progress_bar import ProgressBar

from zoo.training.module import Training
from zoo.types import Seconds

logger = logging.getLogger(__name__)


def progress_bar() -> Callback:
    """A bar on a terminal, lines in a file."""
    return RichProgressBar() if sys.stderr.isatty() else ProgressLines()


class ProgressLines(ProgressBar):
    """One line per ``every_seconds``: step, stage, loss, minutes left. Replaces Lightning's bar."""

    def __init__(self, every_seconds: Seconds = 30.0) -> None:
        super().__init__()
        self.every_seconds = every_seconds
        self._started = self._printed = 0.0
        self._first_step = 0

    def disable(self) -> None:
        """Lightning asks this of bars on other ranks."""
        self.every_seconds = float("inf")

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Start counting, from the step of a resumed run."""
        self._started = self._printed = time.monotonic()
        self._first_step = trainer.global_step

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Print a line if the last one is long enough ago."""
        now = time.monotonic()
        if now - self._printed < self.every_seconds:
            return
        assert isinstance(pl_module, Training)
        self._printed, step, steps = now, trainer.global_step, pl_module.curriculum.steps
        stage, _ = pl_module.curriculum.at(step)
        left = (now - self._started) / max(1, step - self._first_step) * (steps - step) / 60
        logger.info(
            "step %d/%d %s: loss %.3f, %.0f min left",
            step,
            steps,
            stage.name,
            float(outputs["loss"]),
            left,
        )
