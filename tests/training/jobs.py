"""Small trainings as processes: run to their end or killed before it, and their logged losses."""

import csv
import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.fixtures import processes

ROOT = Path(__file__).resolve().parents[2]


def train(folder: Path, given: Sequence[str]) -> None:
    """Train into ``folder`` to the end."""
    done = processes.run(*_command(folder, given), folder=folder.parent)
    assert done.returncode == 0, done.stderr[-2000:]


def train_and_kill(
    folder: Path,
    given: Sequence[str],
    *,
    stages: Iterable[str],
    step: int,
    number: signal.Signals = signal.SIGKILL,
    exit_code: int = -signal.SIGKILL,
) -> None:
    """Train into ``folder`` and send a signal to all processes when ``step`` is logged."""
    started = processes.start(*_command(folder, given), folder=folder.parent, joined=True)
    while started.poll() is None:
        if (folder / "metrics.csv").exists() and step in losses(folder, stages):
            os.killpg(started.pid, number)
            started.wait()
        time.sleep(0.02)
    assert started.returncode == exit_code, (
        f"it ended before it could be killed: {started.communicate()[0][-2000:]}"
    )


def losses(folder: Path, stages: Iterable[str]) -> dict[int, float]:
    """Loss of the first process by step; where a resumed run took a step again, the later row."""
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    named = [f"train/{name}/loss" for name in stages]
    return {int(row["step"]): float(row[name]) for row in rows for name in named if row.get(name)}


def _command(folder: Path, given: Sequence[str]) -> list[str]:
    return [str(ROOT / "train.py"), *given, f"hydra.run.dir={folder}"]
