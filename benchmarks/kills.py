"""Endurance check: jobs that are killed at random moments and resumed lose no finished talk.

    python benchmarks/kills.py --kills 15              evaluate.py and train.py, two ranks each
    python benchmarks/kills.py --job evaluate --devices 1
    python benchmarks/kills.py --job prepare --kills 10    python -m zoo.prepare

A job runs once undisturbed. The same job then runs again: the whole process group is killed with
SIGKILL after a random time, at least ``--kills`` times, and resumed each time. At the end the logs
of the evaluation must be equal in everything except times of the clock, no finished talk may have
been streamed twice, the losses of the training must be equal, and so must all files of the
preparation. Exit code 1: they are not.
"""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import track

from harness import ROOT, parser_of, print_result, streams_without_clock
from zoo.files import sha256

EVALUATION = (
    "evaluation.talks=2",
    "evaluation.view=segments",
    "evaluation.knob_values=[1,2]",
    "evaluation.oracle_k=[]",
    "device=cpu",
    "logger=csv",
)
TRAINING = (
    "experiment=infinisst_minitalks",
    "training.train_talks=4",
    "training.dev_talks=1",
    "training.evaluate_every_steps=20",
    "training.evaluate_from_step=0",
    "training.save_every_steps=5",
    "training.log_every_steps=1",
    "training.data_workers=0",
    "training.curriculum.stages.recognition.steps=20",
    "training.curriculum.stages.translation.steps=20",
    "training.curriculum.stages.long_segments.steps=20",
    "device=cpu",
    "logger=csv",
)
PREPARATION = (
    "data=minitalks",
    "prepare.splits=[train]",
    "prepare.talks=60",
    "prepare.part_seconds=100",
    "prepare.tar_megabytes=50",
    "audio.copy=always",
    "steps=[audio,words,alignment,trajectories,filters]",
    "device=cpu",
    "logger.mode=disabled",
)
JOBS = {"evaluate": EVALUATION, "train": TRAINING, "prepare": PREPARATION}
START = 8.0  # seconds before which no kill is useful: imports
LONGEST_DELAY = 0.8  # of the duration of the undisturbed job


def main() -> None:
    """Run the jobs and compare."""
    parser = parser_of(__doc__, {"kills": (15, 2, "kills of each job"), "devices": (2, 2, "ranks")})
    parser.add_argument("--job", choices=tuple(JOBS), action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    given = parser.parse_args()

    results: dict[str, Any] = {}
    for job in given.job or JOBS:
        with tempfile.TemporaryDirectory() as folder:
            results[job] = check(
                job, Path(folder), given.kills, given.devices, random.Random(given.seed)
            )
    print_result("kills", results)
    sys.exit(0 if all(result["equal"] for result in results.values()) else 1)


def check(
    job: str, folder: Path, kills: int, devices: int, moments: random.Random
) -> dict[str, Any]:
    """Run a job undisturbed and killed, and compare the two.

    Args:
        job: a key of ``JOBS``.
        folder: Folder of both runs.
        kills: Number of kills.
        devices: Number of ranks.
        moments: Source of the random moments.
    """
    undisturbed, disturbed = folder / "undisturbed", folder / "disturbed"
    overrides = [*JOBS[job], *([] if job == "prepare" else [f"trainer.devices={devices}"])]
    start = time.perf_counter()
    if run(job, undisturbed, overrides) != 0:
        raise SystemExit(f"The job {job} failed; see its messages above.")
    duration = time.perf_counter() - start

    for _ in track(range(kills), description=f"killing {job}"):
        seconds = moments.uniform(START, START + LONGEST_DELAY * duration)
        if run(job, disturbed, [*overrides, *resume(job, disturbed)], seconds) == 0:
            forget_last_steps(job, disturbed)
    if run(job, disturbed, [*overrides, *resume(job, disturbed)]) != 0:
        raise SystemExit(f"The job {job} cannot be resumed; see its messages above.")
    return compare(job, undisturbed, disturbed) | {"kills": kills}


def run(
    job: str, folder: Path, overrides: Sequence[str], seconds: float | None = None
) -> int | None:
    """Run a job; kill all of its processes after ``seconds``.

    Returns:
        The exit code; None if the job was killed.
    """
    if job == "prepare":
        program = ["-m", "zoo.prepare", f"prepare.folder={folder}"]
    else:
        program = [str(ROOT / f"{job}.py"), f"hydra.run.dir={folder}"]
    process = subprocess.Popen(
        [sys.executable, *program, *overrides],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def resume(job: str, folder: Path) -> list[str]:
    """Return the override that resumes a run; none if the run has nothing to resume."""
    if job == "prepare":
        return []  # the same command continues it
    resumable = (folder / "provenance.json").is_file() and (folder / "run.json").is_file()
    if (folder / "evaluate.log").exists() or (folder / "instances").exists():
        return [f"resume={folder}"] if resumable else start_again(folder)
    checkpoint = folder / "checkpoints" / "last.ckpt"
    return [f"resume={folder}"] if checkpoint.exists() else start_again(folder)


def start_again(folder: Path) -> list[str]:
    """Remove a run that was killed before it had anything to resume."""
    shutil.rmtree(folder, ignore_errors=True)
    return []


def forget_last_steps(job: str, folder: Path) -> None:
    """Remove some finished talks, so that the next start has work although the job has ended."""
    if job == "evaluate":
        for log in folder.glob("instances/*/finished/rank*.jsonl"):
            lines = log.read_bytes().splitlines(keepends=True)
            log.write_bytes(b"".join(lines[: len(lines) // 2]))
    if job == "prepare":
        for part in list(folder.glob("work/*/*/*.jsonl"))[::2]:
            part.unlink()


def compare(job: str, undisturbed: Path, disturbed: Path) -> dict[str, Any]:
    """Return whether two runs of a job are equal, and what was done twice."""
    if job == "prepare":
        before, after = content(undisturbed), content(disturbed)
        return {"equal": before == after and bool(before), "files": len(before)}
    if job == "train":
        first, second = losses(undisturbed), losses(disturbed)
        return {"equal": first == second and bool(first), "losses": len(first)}
    first, second = streams_without_clock(undisturbed), streams_without_clock(disturbed)
    finished = [
        (log.parent, json.loads(line)["index"])
        for log in disturbed.glob("instances/*/finished/rank*.jsonl")
        for line in log.read_text().splitlines()
    ]
    twice = len(finished) - len(set(finished))
    return {
        "equal": first == second and bool(first) and twice == 0,
        "streams": len(first),
        "streamed_twice": twice,
    }


def content(folder: Path) -> dict[str, str]:
    """Return the hashes of all files of a prepared corpus."""
    return {
        path.relative_to(folder).as_posix(): sha256(path)
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def losses(folder: Path) -> dict[tuple[str, str], str]:
    """Return the losses of a training by step and name."""
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["step"], name): value
            for row in csv.DictReader(file)
            for name, value in row.items()
            if value and name.startswith("train/")
        }


if __name__ == "__main__":
    main()
