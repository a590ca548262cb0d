"""Several ranks give the words, delays and scores of one process, and one run folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import streams_without_clock

ROOT = Path(__file__).resolve().parents[2]
ROW = Path("instances") / "00-infinisst-m2"
JOB = [
    "evaluation.talks=1",
    "evaluation.view=segments",
    "evaluation.knob_values=[2]",
    "evaluation.upper_bound=false",
    "evaluation.oracle_k=[]",
    "device=cpu",
    "logger=csv",
]


def evaluate(folder: Path, *overrides: str, launcher: tuple[str, ...] = ()) -> None:
    """Run evaluate.py into ``folder``."""
    command = [sys.executable, *launcher, str(ROOT / "evaluate.py"), *JOB, *overrides]
    done = subprocess.run(
        [*command, f"hydra.run.dir={folder}"],
        cwd=folder.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def scores(folder: Path) -> dict[str, float]:
    """The scores that do not depend on the clock."""
    (row,) = json.loads((folder / "results.json").read_text())
    return {
        name: value
        for name, value in row["scores"].items()
        if not name.endswith("_CA") and name != "RTF"
    }


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks") / "single"
    evaluate(folder)
    return folder


@pytest.mark.parametrize(
    ("overrides", "launcher"),
    [
        (["trainer.devices=2"], ()),
        ([], ("-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone")),
    ],
    ids=["devices", "torchrun"],
)
def test_two_ranks_equal_one(
    single: Path, tmp_path: Path, overrides: list[str], launcher: tuple[str, ...]
) -> None:
    evaluate(tmp_path / "run", *overrides, launcher=launcher)
    assert streams_without_clock(tmp_path / "run") == streams_without_clock(single)
    assert scores(tmp_path / "run") == scores(single)
    assert len(list((tmp_path / "run" / ROW / "finished").glob("rank*.jsonl"))) == 2


def test_a_run_of_one_process_is_resumed_by_two(single: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(single, folder)
    log = folder / ROW / "finished" / "rank0.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]) + lines[3][:50])
    evaluate(folder, f"resume={folder}", "trainer.devices=2")
    assert streams_without_clock(folder) == streams_without_clock(single)
    assert log.read_bytes().startswith(b"".join(lines[:3]))
    finished = list((folder / ROW / "finished").glob("rank*.jsonl"))
    assert sum(path.read_bytes().count(b"\n") for path in finished) == len(lines)


def test_another_configuration_is_refused_with_the_difference(single: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "evaluate.py"), *JOB, "evaluation.batch_size=2"]
    done = subprocess.run(
        [*command, f"resume={single}"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "was started with evaluation.batch_size=1, not 2" in done.stderr
