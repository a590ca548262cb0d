"""metrics.csv: grows in rows and columns, survives resuming and a kill in the middle of a line."""

import csv
from pathlib import Path

import torch

from zoo.runs.loggers import CsvLogger
from zoo.runs.metrics_file import MetricsFile


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_are_there_at_once_and_columns_grow(tmp_path: Path) -> None:
    logger = CsvLogger(MetricsFile(tmp_path))
    logger.log_metrics({"train/loss": torch.tensor(0.5)}, step=1)
    assert _rows(tmp_path) == [{"step": "1", "train/loss": "0.5"}]
    logger.log_metrics({"dev/en-de/BLEU": 20.25, "note": 'a "quoted", one'}, step=2)
    logger.log_metrics({"train/loss": 0.25}, step=3)
    empty = {"dev/en-de/BLEU": "", "note": ""}
    assert _rows(tmp_path) == [
        {"step": "1", "train/loss": "0.5", **empty},
        {"step": "2", "train/loss": "", "dev/en-de/BLEU": "20.25", "note": 'a "quoted", one'},
        {"step": "3", "train/loss": "0.25", **empty},
    ]
    assert [path.name for path in tmp_path.iterdir() if "metrics" in path.name] == ["metrics.csv"]


def test_resuming_appends(tmp_path: Path) -> None:
    CsvLogger(MetricsFile(tmp_path)).log_metrics({"a": 1, "b": 2}, step=1)
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("2,3")  # killed while it wrote
    again = CsvLogger(MetricsFile(tmp_path))
    again.log_metrics({"b": 4, "a": 3}, step=2)
    again.log_metrics({"c": 5}, step=None)
    assert _rows(tmp_path) == [
        {"step": "1", "a": "1", "b": "2", "c": ""},
        {"step": "2", "a": "3", "b": "4", "c": ""},
        {"step": "", "a": "", "b": "", "c": "5"},
    ]
