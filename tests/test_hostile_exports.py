"""An export is data: no command runs, writes or reads what its record of overrides names."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import zoo
from tests.fixtures import processes
from tests.fixtures.hostile_exports import (
    ROOT,
    hostile_configs,
    hostile_exports,
    write_config,
    write_export,
)
from tests.fixtures.judge import judge
from zoo.base.disk.files import write_text
from zoo.base.errors import BAD_INPUT, ZooError
from zoo.config import compose

EVALUATE, TRAIN = str(ROOT / "evaluate.py"), str(ROOT / "train.py")
EXPORTS = hostile_exports()
CONFIGS = hostile_configs()
IGNORED = ["the data of a job"]  # recorded by exports of earlier versions; never composed
ADDING = [name for name, lines in EXPORTS.items() if lines[-1].startswith(("+", "-", "~"))]
NODE = "++synthesizer={_target_: torch.load, f: '{folder}/x.pt', weights_only: false}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an export, from which Python would import."""
    monkeypatch.syspath_prepend(tmp_path / "export")
    return tmp_path / "export"


def refuse(folder: Path) -> None:
    """Load a folder, which raises one sentence with its name, and nothing else happens."""
    with judge(folder=folder), pytest.raises(ZooError) as raised:
        zoo.load(folder)
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not list(folder.rglob("ran"))
    assert "evil" not in sys.modules


@pytest.mark.parametrize("name", [name for name in EXPORTS if name not in IGNORED])
def test_a_hostile_record_is_refused(name: str, folder: Path) -> None:
    write_export(folder, EXPORTS[name])
    refuse(folder)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_hostile_configuration_is_refused(name: str, folder: Path) -> None:
    write_config(folder, CONFIGS[name])
    refuse(folder)


@pytest.mark.parametrize("name", IGNORED)
def test_keys_of_the_job_are_not_composed(name: str, folder: Path) -> None:
    write_export(folder, EXPORTS[name])
    with judge(folder=folder):
        system = zoo.load(folder)
        system.configure_model()
    assert system.name == "infinisst"


@pytest.mark.parametrize("name", ADDING[::6])
def test_a_command_that_names_a_hostile_folder_refuses_it(name: str, folder: Path) -> None:
    write_export(folder, EXPORTS[name])
    with judge(folder=folder), pytest.raises(ZooError, match=re.escape(str(folder))):
        compose("evaluate", [f"backbone.checkpoint={folder}"])


@pytest.mark.parametrize(
    "command",
    [
        [EVALUATE, "backbone.checkpoint={folder}"],
        [EVALUATE, "compare={a: ['backbone.checkpoint={folder}'], b: ['system=infinisst']}"],
        [TRAIN, "backbone.checkpoint={folder}"],
        [EVALUATE, "resume={folder}"],
        [TRAIN, "resume={folder}"],
        ["-m", "zoo", "translate", str(ROOT / "README.md"), "backbone.checkpoint={folder}"],
        ["-m", "zoo", "report", "{folder}"],
        ["-m", "zoo.evaluation.synthesis", "backbone.checkpoint={folder}"],
    ],
    ids=[
        "evaluate",
        "compare",
        "train",
        "resume",
        "resume a training",
        "translate",
        "report",
        "module",
    ],
)
def test_every_command_ends_in_one_sentence(command: Sequence[str], folder: Path) -> None:
    write_export(folder, [*EXPORTS["the data of a job"][:3], NODE])
    given = [item.replace("{folder}", str(folder)) for item in command]
    done = processes.run(*given, folder=folder.parent, environment={"PYTHONPATH": str(ROOT)})
    assert done.returncode == BAD_INPUT, done.stderr[-3000:]
    *warnings, sentence = done.stderr.splitlines()
    assert not warnings
    assert sentence.startswith("error: ")
    assert str(folder) in sentence
    if "backbone.checkpoint" in command[-1]:
        assert "++synthesizer={_target_: torch.load" in sentence
    assert not list(folder.rglob("ran"))


def test_a_run_with_links_is_not_resumed(tmp_path: Path) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    for folder in (run / "instances", home):
        folder.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (home / "notes").write_text("mine")
    (run / "instances" / "log").symlink_to(run / "run.json")  # as those of W&B's folder
    for name in ("evaluate.log", "results.json.part", "instances/streams.jsonl"):
        link = run / name
        link.symlink_to(home / "notes")
        for command in (EVALUATE, TRAIN):
            given = [command, f"resume={run}"]
            done = processes.run(*given, folder=tmp_path, environment={"PYTHONPATH": str(ROOT)})
            assert done.returncode == BAD_INPUT, done.stderr[-3000:]
            assert done.stderr == f"error: {link} is a link out of {run}; replace it by a file.\n"
        link.unlink()
    assert (home / "notes").read_text() == "mine"


def test_an_unfinished_file_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "results.json.part").symlink_to(tmp_path / "notes")
    write_text(tmp_path / "results.json", "[]")
    assert (tmp_path / "notes").read_text() == "mine"
    assert (tmp_path / "results.json").read_text() == "[]"


def test_a_pickled_command_line_is_refused(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.pickle").write_bytes(b"")
    given = [EVALUATE, f"--experimental-rerun={folder / 'config.pickle'}"]
    done = processes.run(*given, folder=folder.parent, environment={"PYTHONPATH": str(ROOT)})
    assert done.returncode == BAD_INPUT
    assert done.stderr.startswith("error: --experimental-rerun unpickles its file")
