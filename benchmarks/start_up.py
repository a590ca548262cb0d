"""CPU seconds of the start-up of each command, as ratios to ``import numpy``.

    python benchmarks/start_up.py

Each command runs as a process of its own, several times in turn, and the smallest sum of user and
system time counts. A replayed log has one short stream, so that its scoring takes no time; the time
until its table is measured apart from the time of the whole command, which also draws plots.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from harness import ROOT, parser_of, print_result, print_table, rounded

REPLAY = (
    *(str(ROOT / "evaluate.py"), "system=replay", "system.log=instances.log", "data=recorded"),
    "logger=csv",
)
# Name, arguments of Python, and the text in the line of stdout at which the time is taken; without
# a text it is the time of the whole command.
COMMANDS: tuple[tuple[str, Sequence[str], str], ...] = (
    ("import numpy", ("-c", "import numpy"), ""),
    ("import zoo", ("-c", "import zoo"), ""),
    ("import zoo.metrics.longform", ("-c", "import zoo.metrics.longform"), ""),
    ("system=replay, until the table", REPLAY, "replay"),
    ("system=replay", REPLAY, ""),
    ("python -m zoo report RUN", ("-m", "zoo", "report", "run"), ""),
    ("python -m zoo report nowhere", ("-m", "zoo", "report", "nowhere"), ""),
    ("evaluate.py --help", (str(ROOT / "evaluate.py"), "--help"), ""),
    ("evaluate.py nonsense=1", (str(ROOT / "evaluate.py"), "nonsense=1"), ""),
    ("evaluate.py backbone.nonsense=1", (str(ROOT / "evaluate.py"), "backbone.nonsense=1"), ""),
    ("evaluate.py policy.nonsense=1", (str(ROOT / "evaluate.py"), "policy.nonsense=1"), ""),
    ("train.py --help", (str(ROOT / "train.py"), "--help"), ""),
    ("train.py nonsense=1", (str(ROOT / "train.py"), "nonsense=1"), ""),
)
STREAM = {
    "index": 0,
    "prediction": "Eins zwei drei vier.",
    "delays": [1000, 2000, 2000, 3000],
    "elapsed": [1500, 3000, 3000, 4000],
    "source": ["talk.wav"],
    "source_length": 3000,
    "reference": "Eins zwei drei vier.",
}


def main() -> None:
    """Measure all commands and print their times and ratios."""
    given = parser_of(__doc__, {"repetitions": (3, 1, "runs per command")}).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "instances.log").write_text(json.dumps(STREAM) + "\n")
        cpu_seconds((*REPLAY, "hydra.run.dir=run"), folder)  # and fills the caches of files
        times: dict[str, float] = {}
        for _ in range(given.repetitions):
            for label, arguments, shown in COMMANDS:
                seconds = cpu_seconds(arguments, folder, until=shown)
                times[label] = min(seconds, times.get(label, seconds))

    ratios = {label: seconds / times["import numpy"] for label, seconds in times.items()}
    rows = [[label, f"{times[label]:.2f}", f"{ratios[label]:.1f}"] for label in times]
    print_table(["command", "CPU seconds", "times import numpy"], rows)
    del ratios["import numpy"]
    speedups = {f"{slug(label)}_speedup": 1 / ratio for label, ratio in ratios.items()}
    print_result("start_up", {"ratios": rounded(ratios)}, rounded(speedups))


def slug(label: str) -> str:
    """Name of a command in the last line: letters, digits and underscores."""
    return re.sub(r"\W+", "_", label).strip("_")


def cpu_seconds(arguments: Sequence[str], folder: Path, *, until: str = "") -> float:
    """Return the user and system time of a Python process.

    Args:
        arguments: arguments of Python.
        folder: working directory.
        until: text in the line of stdout at which the time is taken; empty: the end.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    before = os.times()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    reached = 0.0
    for line in process.stdout:
        if until and until in line and not reached:
            used = psutil.Process(process.pid).cpu_times()
            reached = used.user + used.system
    process.wait()
    after = os.times()
    whole = after.children_user + after.children_system
    return reached or whole - before.children_user - before.children_system


if __name__ == "__main__":
    main()
