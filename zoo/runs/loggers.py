"""Loggers of a run for Lightning's Trainer: ``metrics.csv`` and W&B."""

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from zoo.runs.metrics_file import MetricsFile
from zoo.runs.run import Run
from zoo.runs.wandb_run import STEP_AXIS, WandbRun

if TYPE_CHECKING:
    import wandb


def plain_values(metrics: Mapping[str, float | Tensor | str | None]) -> dict[str, Any]:
    """Return the metrics with tensors of one element replaced by their values."""
    return {
        name: value.item() if isinstance(value, Tensor) else value
        for name, value in metrics.items()
    }


class CsvLogger(Logger):
    """Lightning logger of ``metrics.csv``.

    Args:
        file: the file of the run.
    """

    def __init__(self, file: MetricsFile) -> None:
        super().__init__()
        self._file = file

    @property
    def name(self) -> str:
        """Lightning's name for the logger."""
        return "csv"

    @property
    def version(self) -> str:
        """The name of the run folder."""
        return self._file.path.parent.name

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self._file.path.parent)

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any
    ) -> None:
        """Do nothing: config.yaml in the run folder has the whole configuration."""

    @rank_zero_only
    def log_metrics(
        self, metrics: Mapping[str, float | Tensor | str | None], step: int | None = None
    ) -> None:
        """Append a row.

        Args:
            metrics: values by name.
            step: optimizer step; None for metrics outside training.
        """
        self._file.append(plain_values(metrics), step=step)


class WandbLogger(Logger):
    """Lightning logger of a started W&B run.

    Metrics are logged on the axis ``trainer/global_step`` rather than W&B's own step counter, which
    must not decrease and would reject the repeated steps of a resumed training.

    Args:
        run: the run.
        wandb_run: the W&B run of ``run``.
    """

    def __init__(self, run: Run, wandb_run: WandbRun) -> None:
        super().__init__()
        self._run = run
        self._wandb = wandb_run

    @property
    def name(self) -> str:
        """The W&B project."""
        return self._wandb.project

    @property
    def version(self) -> str:
        """The run id."""
        return self._run.id

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self._run.folder)

    @property
    def experiment(self) -> "wandb.Run":
        """The W&B run, for a user's own callbacks; its errors are raised."""
        return self._wandb.run

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any
    ) -> None:
        """Do nothing: ``start`` has logged the whole configuration."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float | Tensor], step: int | None = None) -> None:
        """Log metrics.

        Args:
            metrics: values by name.
            step: optimizer step; None for metrics outside training.
        """
        axis = {} if step is None else {STEP_AXIS: step}
        values = {**plain_values(metrics), **axis}
        self._wandb.do(lambda run: run.log(values))
