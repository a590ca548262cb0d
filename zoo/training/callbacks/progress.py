"""Progress display of a training: a progress bar or log lines."""

import logging
import sys
import time
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.callbacks.progress.progress_bar import ProgressBar

from zoo.base.types import Seconds
from zoo.systems.base import StreamingSystem
from zoo.training.module import Training

logger = logging.getLogger(__name__)


def progress_bar() -> Callback:
    """Return a progress bar if stderr is a terminal, and log lines otherwise."""
    return RichProgressBar() if sys.stderr.isatty() else ProgressLines()


class ProgressLines(ProgressBar):
    """Progress display that logs one line per interval, in place of Lightning's progress bar.

    A line has the step, the stage, the loss, the tokens per second (if the callback ``Throughput``
    measures them) and the estimated minutes until the end of the training.

    Args:
        every_seconds: Minimum time between two lines, in seconds.
    """

    def __init__(self, every_seconds: Seconds = 30.0) -> None:
        super().__init__()
        self.every_seconds = every_seconds
        self._start_time = 0.0  # seconds of the monotonic clock
        self._last_line_time = 0.0
        self._first_step = 0

    def disable(self) -> None:
        """Log no lines; Lightning calls this method on all ranks except rank 0."""
        self.every_seconds = float("inf")

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Store the start time and the first step, which is above 0 in a resumed run."""
        self._start_time = time.monotonic()
        self._last_line_time = self._start_time
        self._first_step = trainer.global_step

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Log a line if ``every_seconds`` have passed since the last line."""
        now = time.monotonic()
        if now - self._last_line_time < self.every_seconds:
            return
        assert isinstance(pl_module, StreamingSystem)
        training = pl_module.training_plan
        assert isinstance(training, Training)
        self._last_line_time = now

        step = trainer.global_step
        total_steps = training.curriculum.steps
        stage, _ = training.curriculum.at(step)
        seconds_per_step = (now - self._start_time) / max(1, step - self._first_step)
        minutes_left = seconds_per_step * (total_steps - step) / 60
        speed = trainer.progress_bar_metrics.get("tokens/s")
        logger.info(
            "step %d/%d %s: loss %.3f, %s%.0f min left",
            step,
            total_steps,
            stage.name,
            float(trainer.progress_bar_metrics["loss"]),
            "" if speed is None else f"{speed:,.0f} tokens/s, ",
            minutes_left,
        )
