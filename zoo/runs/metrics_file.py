"""Metrics as rows of ``metrics.csv`` in the run folder."""

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from zoo.base.disk.files import append_line, write_bytes, write_text
from zoo.base.disk.run_folder import METRICS

STEP = "step"
FORMULA = tuple("=+-@\t\r")  # first characters of a formula


class MetricsFile:
    """Appends one row per call immediately, so that a killed run keeps its rows.

    A resumed run appends to the existing file, whereas Lightning's own CSV logger deletes it. If a
    resumed training repeats steps, the file has both rows and the later one is valid. A new metric
    adds a column; rows without that metric have an empty cell.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = Path(folder) / METRICS
        self._columns: list[str] | None = None  # columns of the file; None before it is read

    def append(self, metrics: Mapping[str, float | str | None], *, step: int | None = None) -> None:
        """Append a row.

        Args:
            metrics: values by name.
            step: optimizer step; None for metrics outside training.
        """
        row = {STEP: step, **{str(_cell(name)): _cell(value) for name, value in metrics.items()}}
        if self._columns is None:
            self._remove_partial_row()
            self._columns = self._read_columns()

        new = [name for name in row if name not in self._columns]
        if new:
            columns = [*self._columns, *new]
            self._rewrite(columns)
            self._columns = columns
        line = StringIO(newline="")
        csv.DictWriter(line, self._columns).writerow(row)
        append_line(self.path, line.getvalue())

    def _remove_partial_row(self) -> None:
        """Remove a last row that a killed run has not written to its end."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            write_bytes(self.path, complete)

    def _read_columns(self) -> list[str]:
        """Return the columns of the file; empty if there is no file."""
        return next(csv.reader(self._lines()), [])

    def _rewrite(self, columns: Sequence[str]) -> None:
        """Rewrite the existing rows with other columns."""
        rows = csv.DictReader(self._lines())
        text = StringIO(newline="")
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.path, text.getvalue())

    def _lines(self) -> list[str]:
        """Return the lines of the file.

        Each line is one row: names and values of metrics are numbers or short strings without line
        breaks.
        """
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []


def _cell(value: float | str | None) -> float | str | None:
    """Return a value that no spreadsheet takes for a formula, as in the name of a system."""
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA else value
