"""A full disk ends any command in one sentence; what was written before is kept."""

import errno
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.apps.prepare.conftest import write_corpus
from tests.evaluation.conftest import Evaluate, Result
from tests.fixtures.disk import leave
from tests.report.test_joined import row
from tests.report.test_joined import run as write_run
from zoo.apps.prepare import main as prepare
from zoo.apps.report import main as report
from zoo.apps.translate import main as translate
from zoo.backbones.pretrained.weights import save_weights
from zoo.base.audio import files as audio
from zoo.base.disk.files import explained_disk, full_disk, write_text
from zoo.base.errors import ZooError
from zoo.base.machine import launch
from zoo.base.machine.commands import run_script
from zoo.config import build, compose
from zoo.data.minitalks import corpus as minitalks
from zoo.training import writing
from zoo.training.writing import BackgroundWriter, read_file


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

    finished = {path: path.read_bytes() for path in run.rglob("streams*.jsonl")}
    filler.unlink()
    begun = (run / "provenance.json").is_file()
    again = f"resume={run}" if begun else f"hydra.run.dir={disk / 'again'}"
    result = evaluate(*given, again)
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
    with pytest.raises(RuntimeError) as raised:
        writer.finish()
    assert f"The disk of {disk} is full" in full_disk(raised.value, disk)
    assert read_file(path) == {"step": 1}
    assert not list(disk.glob("*.part"))


NUMBERS = {  # of an error of the system: what the sentence says about the disk
    errno.ENOSPC: "is full; what was written before is kept. Free some space and",
    errno.EDQUOT: "is full up to your quota; what was written",
    errno.EFBIG: "takes no file of that size (ulimit -f, or a file system such as FAT); what was",
    errno.EROFS: "has become read-only; what was written",
}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_disk_that_takes_no_more(number: int, tmp_path: Path) -> None:
    begin = f"The disk of {tmp_path} {NUMBERS[number]}"
    assert full_disk(OSError(number, os.strerror(number)), tmp_path).startswith(begin)
    assert full_disk(ValueError(f"I/O error: {os.strerror(number)}"), tmp_path).startswith(begin)
    error = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos")
    error.__context__ = OSError(number, os.strerror(number))
    assert full_disk(error, tmp_path).startswith(begin)


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files of this process have at most 16 KB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


LARGE = {  # by library
    "samples": lambda path: audio.write(path, torch.zeros(100_000)),
    "NumPy": lambda path: np.save(path, np.zeros(100_000)),
    "weights": lambda path: save_weights(torch.nn.Linear(100, 1000), path),
    "checkpoint": lambda path: writing._write({"weights": torch.zeros(100_000)}, path),
    "text": lambda path: write_text(path, "a" * 100_000),
}


@pytest.mark.parametrize("content", LARGE)
@pytest.mark.usefixtures("small_files")
def test_a_file_that_is_too_large(content: str, tmp_path: Path) -> None:
    sentence = rf"The disk of {tmp_path} (takes no file|is full)"
    with pytest.raises(ZooError, match=sentence), explained_disk(tmp_path):
        LARGE[content](tmp_path / "large.npy")


@pytest.mark.usefixtures("small_files")
def test_a_report_that_is_too_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [row("a", 10.0)])
    given = [str(run), "--output", str(tmp_path / "report")]
    last = leaves_with_2(lambda: report(given), capsys)
    assert "takes no file of that size (ulimit -f" in last


def test_which_errors_are_those_of_a_full_disk(tmp_path: Path) -> None:
    assert full_disk(OSError(errno.ENOENT, "gone"), tmp_path) == ""
    assert full_disk(OSError(errno.EROFS, "Read-only file system", "a"), tmp_path) == ""
    assert "is full" in full_disk(OSError("1000 requested and 12 written"), tmp_path)
    error = RuntimeError("unwritten")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert f"The disk of {tmp_path} is full" in full_disk(error, tmp_path)
    assert full_disk(RuntimeError("PytorchStreamWriter failed writing file data/1"), tmp_path)


@pytest.mark.usefixtures("_no_home")
def test_a_full_disk_without_a_home_folder(tmp_path: Path) -> None:
    assert f"The disk of {tmp_path} is full" in full_disk(OSError(errno.ENOSPC, "full"), tmp_path)


def leaves_with_2(start: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> str:
    """Start a command that must end with one sentence and exit code 2; return the sentence."""
    launch.launch_name.cache_clear()
    with pytest.raises(SystemExit) as left:
        start()
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert (left.value.code, last[:7]) == (2, "error: ")
    assert "The disk of " in last
    return last


def test_a_report_leaves_no_half(
    disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", [row("a", 10.0)])
    filler = leave(disk, 20 * 1024)
    given = [str(run), "--output", str(disk / "report")]
    assert f"The disk of {disk}" in leaves_with_2(lambda: report(given), capsys)
    filler.unlink()
    report(given)
    assert (disk / "report" / "report.html").is_file()


def test_a_preparation_goes_on(
    disk: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_corpus(here / "corpus")
    given = ["data=aligned", f"data.folder={corpus}", f"prepare.folder={disk / 'out'}"]
    given += ["prepare.splits=[train]", "prepare.part_seconds=7", "steps=[audio,words]"]
    given += ["audio.damaged=drop"]  # a talk without space is not damaged
    monkeypatch.setattr(sys, "argv", ["prepare", *given, "device=cpu", "logger.mode=disabled"])
    filler = leave(disk, 450 * 1024)  # the audio of two of four talks
    assert f"The disk of {disk}" in leaves_with_2(prepare, capsys)
    kept = list((disk / "out" / "audio").rglob("*.wav"))
    assert len(kept) >= 2
    times = {path: path.stat().st_mtime_ns for path in kept}
    filler.unlink()
    launch.launch_name.cache_clear()
    prepare()
    assert len((disk / "out" / "train.jsonl").read_text().splitlines()) == 4
    assert sum(path.stat().st_mtime_ns == time for path, time in times.items()) >= 2


def test_a_translation_keeps_the_talks_before(
    disk: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = build(compose("evaluate").data).talks("tst", limit=1)[0]
    shutil.copy(talk.file, here / "one.wav")
    given = ["one.wav", "system=streamatt", "speed=max", f"hydra.run.dir={disk / 'out'}"]
    monkeypatch.setattr(sys, "argv", ["translate", *given])
    leave(disk, 64 * 1024)  # for the text, not for the page
    assert f"The disk of {disk}" in leaves_with_2(translate, capsys)
    assert (disk / "out" / "one.txt").read_text().strip()


def test_a_split_is_synthesised_when_there_is_space(
    disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMULZOO_CACHE", str(disk / "cache"))
    monkeypatch.setattr(sys, "argv", ["corpus", "--split", "dev", "--talks", "1"])
    filler = leave(disk, 500 * 1024)
    sentence = leaves_with_2(lambda: run_script(minitalks.main), capsys)
    assert f"The disk of {disk}" in sentence
    filler.unlink()
    minitalks.main()
    assert "dev: 1 talks" in capsys.readouterr().out
