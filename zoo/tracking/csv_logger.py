"""Metrics as rows of ``metrics.csv`` in the run folder. Knows neither what is measured nor any other logger."""

import csv
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from zoo.files import atomic_file, write_bytes

STEP = "step"


class CsvLogger(Logger):
    """Appends one row per call, at once, so that a killed run keeps its rows; a resumed run goes on below them.

    Lightning's own logger deletes the file of an earlier start. Where a resumed training repeats steps, both rows are
    there: the later one counts. The columns grow with the metrics; a row leaves what it does not measure empty.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = Path(folder) / "metrics.csv"
        self._columns: list[str] | None = None  # None: not looked at the file yet

    @property
    def name(self) -> str:
        """Lightning's name for the logger."""
        return "csv"

    @property
    def version(self) -> str:
        """The name of the run folder."""
        return self.path.parent.name

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self.path.parent)

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any
    ) -> None:
        """Nothing: the run folder already has the whole configuration."""

    @rank_zero_only
    def log_metrics(
        self, metrics: Mapping[str, float | Tensor | str | None], step: int | None = None
    ) -> None:
        """Append a row. step: the optimizer step (None: the measurement belongs to none)."""
        row = {
            name: value.item() if isinstance(value, Tensor) else value
            for name, value in metrics.items()
        }
        row = {STEP: step, **row}
        if self._columns is None:
            self._columns = self._open()
        new = [name for name in row if name not in self._columns]
        if new:
            self._columns += new
            self._widen()
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns).writerow(row)

    def _open(self) -> list[str]:
        """Columns of the rows already there, after cutting off a last line that a kill left unfinished."""
        if not self.path.exists():
            return []
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            write_bytes(self.path, whole)
        return next(csv.reader(whole.decode().splitlines()), [])

    def _widen(self) -> None:
        """Rewrite the file under the longer header."""
        assert self._columns is not None
        rows = (
            list(csv.DictReader(self.path.read_text().splitlines())) if self.path.exists() else []
        )
        with atomic_file(self.path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            writer.writeheader()
            writer.writerows(rows)
