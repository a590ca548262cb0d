"""Odd terminals, folders and launchers: one sentence and exit code 2, and nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.fixtures.processes import ROOT
from zoo.apps.evaluate import main as evaluate
from zoo.apps.prepare import main as prepare
from zoo.backbones.pretrained.weights import save_weights
from zoo.base.errors import BAD_INPUT
from zoo.base.machine import launch

REMOVED = "mkdir gone; cd gone; rmdir ../gone; "
FOLDER = "error: The current folder cannot be used (No such file or directory); change to another"
# A shell's words around a command: exit code, and the beginning of its last line on stderr.
SHELLS = {
    "evaluate.py --help >&-": (0, ""),
    "evaluate.py --cfg job <&- >&-": (0, ""),
    "evaluate.py --help <&- >&- 2>&-": (0, ""),
    "evaluate.py nokey=1 <&- >&- 2>&-": (BAD_INPUT, ""),
    "evaluate.py --info searchpath | head -n 1": (0, ""),
    "evaluate.py --hydra-help": (0, ""),
    f"{REMOVED} evaluate.py seed=-1": (BAD_INPUT, FOLDER),
    f"{REMOVED} evaluate.py --help": (BAD_INPUT, FOLDER),
    f"{REMOVED} -m zoo keys": (BAD_INPUT, FOLDER),
    f"{REMOVED} -m zoo report run": (BAD_INPUT, FOLDER),
    f"{REMOVED} -m zoo translate a.wav": (BAD_INPUT, FOLDER),
    "evaluate.py --config-dir=nowhere": (BAD_INPUT, "error: There is no folder nowhere (--config"),
    "evaluate.py --config-dir=": (BAD_INPUT, "error: There is no folder '' (--config-dir)"),
    "-m zoo keys --config-dir=": (BAD_INPUT, "error: There is no folder '' (--config-dir)"),
    "evaluate.py hydra.searchpath=[file:///nowhere]": (
        BAD_INPUT,
        "error: There is no folder /nowhere (file) with configurations that can be read; correct",
    ),
    "MPLBACKEND=bad evaluate.py policy=nothing": (BAD_INPUT, "error: Unknown policy 'nothing'"),
    "MPLBACKEND=bad -m zoo report nothing": (BAD_INPUT, "error: "),
    "MPLBACKEND=bad -m zoo synthesis policy=nothing": (BAD_INPUT, "error: Unknown p"),
    "ulimit -f 0; evaluate.py policy=nothing": (BAD_INPUT, "error: "),
    "HYDRA_FULL_ERROR=0 evaluate.py policy=nothing": (BAD_INPUT, "error: Unknown policy 'nothing'"),
    "COLUMNS=1 TERM=dumb evaluate.py policy=nothing": (BAD_INPUT, "error: Unknown policy"),
    "OMP_NUM_THREADS=abc evaluate.py policy=nothing": (BAD_INPUT, "error: Unknown policy"),
}


@pytest.mark.parametrize("line", SHELLS)
def test_a_command_in_an_odd_shell(line: str, tmp_path: Path) -> None:
    before, script, after = line.partition("evaluate.py")
    if not script:
        before, script, after = line.partition("-m ")
        script = "-m "
    else:
        script = f"{ROOT}/evaluate.py"
    code, sentence = SHELLS[line]
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{before}{sys.executable} {script}{after}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == bool(sentence), done.stderr


def refused(*overrides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Call evaluate.py with overrides that it refuses."""
    launch.launch_name.cache_clear()
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *overrides])
    with pytest.raises(SystemExit) as left:
        evaluate()
    assert left.value.code == BAD_INPUT


@pytest.mark.parametrize("wrong", ["seed=-1", "data=mustc data.root=nowhere"])
def test_only_new_folders_are_removed(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "outputs").mkdir()
    given = wrong.split(" ")
    refused(*given, "hydra.run.dir=empty", monkeypatch=monkeypatch)
    refused(*given, "hydra.run.dir=empty/a/b", monkeypatch=monkeypatch)
    refused(*given, f"hydra.run.dir={tmp_path}/outputs/x", monkeypatch=monkeypatch)
    refused(*given, "hydra.run.dir=c/d", monkeypatch=monkeypatch)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "outputs"]


def test_a_refused_multirun_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused("-m", "seed=-1,-2", monkeypatch=monkeypatch)
    refused("-m", "seed=1,2", "policy=nothing", monkeypatch=monkeypatch)
    assert not list(tmp_path.iterdir())
    (tmp_path / "sweep").mkdir()
    refused("-m", "seed=-1,-2", "hydra.sweep.dir=sweep", monkeypatch=monkeypatch)
    assert not list((tmp_path / "sweep").iterdir())
    (tmp_path / "sweep" / "0").mkdir()
    (tmp_path / "sweep" / "multirun.yaml").write_text("mine")
    refused("-m", "seed=-1,-2", "hydra.sweep.dir=sweep", monkeypatch=monkeypatch)
    assert (tmp_path / "sweep" / "multirun.yaml").read_text() == "mine"


SHARED = "from zoo.training.batches import check_shared_memory; check_shared_memory()"


def test_workers_without_shared_memory() -> None:
    mount = "mount -t tmpfs -o ro tmpfs /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no right to mount a tmpfs")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && exec '{sys.executable}' -c '{SHARED}'"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "ZooError: Data workers need shared memory, which this machine refuses" in done.stderr
    subprocess.run([sys.executable, "-c", SHARED], cwd=ROOT, check=True)


PACKAGES = {  # of --cfg job: what is printed
    "compare": "null\n",
    "seed": "0\n",
    "policy": "# @package policy\n_target_: zoo.policies.turn_taking.TurnTaking\nmin_start: 0.0\n",
}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_part_is_printed(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "--cfg", "job", "--package", package])
    evaluate()
    assert capsys.readouterr().out == PACKAGES[package]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no /proc")
def test_what_cannot_be_read_or_written_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_weights(torch.nn.Linear(1, 1), tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "config.yaml").symlink_to("/proc/self/mem")
    refused(f"backbone.checkpoint={tmp_path / 'checkpoint'}", monkeypatch=monkeypatch)
    assert capsys.readouterr().err.endswith("config.yaml cannot be read: Input/output error.\n")

    given = ["data=mustc", "data.root=nowhere", "prepare.folder=/proc/a/b"]
    monkeypatch.setattr(sys, "argv", ["prepare", *given])
    launch.launch_name.cache_clear()
    with pytest.raises(SystemExit):
        prepare()
    assert "prepare.folder=/proc/a/b: /proc cannot be written to" in capsys.readouterr().err


# Wrong inputs, for which nobody waits until networks are imported.
EARLY = {
    "README.md": "Audio file README.md is damaged or not audio",
}
SCRIPT = """
import sys
from zoo.apps.translate import main
sys.argv[0] = "evaluate.py"
try:
    main()
finally:
    print(*sorted({"lightning", "transformers", "peft"} & set(sys.modules)))
"""


@pytest.mark.parametrize("name", EARLY)
def test_wrong_files_are_refused_before_networks_are_imported(name: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Words.\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (BAD_INPUT, "\n"), done.stderr
    assert done.stderr.startswith(f"error: {EARLY[name]}")
