"""A full disk ends an evaluation or training in one sentence; what was written before is kept.

The disk is a small tmpfs, so the tests need the right to mount one.
"""

import errno
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.evaluation.conftest import Evaluate, Result
from zoo.files import full_disk
from zoo.training.writing import BackgroundWriter, read_file


def mount(*arguments: str) -> bool:
    """Call mount; return whether it succeeded."""
    return not subprocess.run(["mount", *arguments], capture_output=True).returncode


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or not mount("-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)):
        pytest.skip("no right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def leave(disk: Path, size: int) -> Path:
    """Fill the disk up to ``size`` bytes; return the file that takes the space."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        file.write(bytes(16 * 1024 * 1024 - size))
    return filler


def full(result: Result, disk: Path) -> None:
    """One sentence on the last line of stderr, and exit code 2."""
    last = result.err.strip().splitlines()[-1]
    assert (result.code, last[:7]) == (2, "error: "), result.err[-2000:]
    assert f"The disk of {disk}" in last or f"Cannot write to the run folder {disk}" in last


@pytest.mark.parametrize("kilobytes", [0, 12, 40, 80])
def test_an_evaluation_can_be_resumed(
    kilobytes: int, disk: Path, evaluate: Evaluate, mustc: list[str]
) -> None:
    filler = leave(disk, kilobytes * 1024)
    given = [*mustc, "evaluation.knob_values=[1,2]", "evaluation.upper_bound=false"]
    run = disk / "run"
    full(evaluate(*given, f"hydra.run.dir={run}"), disk)

    finished = {path: path.read_bytes() for path in run.rglob("rank*.jsonl")}
    filler.unlink()
    again = [f"resume={run}"] if (run / "provenance.json").is_file() else []
    result = evaluate(*given, *again, f"hydra.run.dir={disk / 'again'}")
    assert result.code == 0, result.err
    rows = json.loads(next(disk.glob("*/results.json")).read_text())
    assert [row["knob"]["value"] for row in rows] == [1, 2]
    for path, content in finished.items():
        assert not path.exists() or path.read_bytes().startswith(content)


def test_a_corpus_is_built_when_there_is_space(
    disk: Path, evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULZOO_CACHE", str(disk / "cache"))
    filler = leave(disk, 500 * 1024)
    given = ["evaluation.talks=1", "evaluation.split=dev", "evaluation.knob_values=[2]"]
    full(evaluate(*given, "hydra.run.dir=run", "evaluation.upper_bound=false"), disk)
    filler.unlink()
    result = evaluate(*given, "hydra.run.dir=run2", "evaluation.upper_bound=false")
    assert result.code == 0, result.err


def test_a_checkpoint_before_is_kept(disk: Path) -> None:
    writer = BackgroundWriter()
    path = disk / "last.ckpt"
    writer.save_checkpoint({"step": 1}, path)
    writer.finish()
    leave(disk, 200 * 1024)
    writer.save_checkpoint({"step": 2, "weights": torch.zeros(100_000)}, path)
    with pytest.raises(RuntimeError, match="pos") as raised:
        writer.finish()
    assert f"The disk of {disk} is full" in full_disk(raised.value, disk)
    assert read_file(path) == {"step": 1}
    assert not list(disk.glob("*.part"))


def test_which_errors_are_those_of_a_full_disk(tmp_path: Path) -> None:
    assert full_disk(OSError(errno.ENOENT, "gone"), tmp_path) == ""
    error = RuntimeError("unwritten")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert f"The disk of {tmp_path} is full" in full_disk(error, tmp_path)
    assert full_disk(RuntimeError("PytorchStreamWriter failed writing file data/1"), tmp_path)
