"""Odd files, folders and names: one sentence, and nothing is written elsewhere."""

import csv
import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.fixtures.processes import ROOT
from zoo.apps.prepare.job import prepare
from zoo.apps.report import main as report
from zoo.apps.translate.command_line import to_overrides
from zoo.apps.translate.inputs import find_talks
from zoo.backbones.pretrained.weights import WEIGHTS, load_weights, tensor_files
from zoo.base.disk.files import check_links, unusable_path
from zoo.base.errors import ZooError
from zoo.base.machine import launch
from zoo.base.machine.commands import run_script
from zoo.base.talks import check_talk_name
from zoo.config import compose
from zoo.data.cache import cache_root
from zoo.data.readers.entries import required
from zoo.formats import text
from zoo.runs.metrics_file import MetricsFile
from zoo.runs.rows.files import row_folder
from zoo.runs.rows.join import find_runs
from zoo.runs.run import open_run
from zoo.runs.tracker import Tracker

COMMANDS: dict[str, Callable[[], object]] = {
    **{
        name: import_module(f"zoo.apps.{name}").main
        for name in ("evaluate", "train", "translate", "prepare")
    },
    "report": report,
}


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A folder with a pipe, which nobody writes."""
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "results.json").write_text("[]")
    return tmp_path


READERS: dict[str, Callable[[Path], object]] = {
    "inputs of a translation": lambda folder: find_talks(
        [str(folder / "pipe.wav")], source_language="en"
    ),
    "a run that is resumed": check_links,
    "a run that is reported": lambda folder: find_runs([folder]),
    "a folder of weights": lambda folder: compose("evaluate", [f"backbone.checkpoint={folder}"]),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_pipe_is_not_read(kind: str, pipe: Path) -> None:
    with pytest.raises(ZooError, match=r"pipe\.wav is a pipe, a socket or a device, not a file"):
        READERS[kind](pipe)


def test_a_link_out_of_a_run_is_refused_unless_wandb_made_it(tmp_path: Path) -> None:
    logs = tmp_path / "run" / "wandb" / "offline-run-20260101_000000-abc" / "logs"
    logs.mkdir(parents=True)
    (logs / "debug-core.log").symlink_to("/root/.cache/wandb/logs/core-debug.log")
    check_links(tmp_path / "run")
    (logs / "debug.log").symlink_to(tmp_path / "other")
    with pytest.raises(ZooError, match=r"debug\.log is a link out of .*; replace it by a file"):
        check_links(tmp_path / "run")


def test_a_text_that_no_memory_holds_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "terms.txt").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ZooError, match=r"terms\.txt has more than 1000 MB, as no text has"):
        text.read_text(tmp_path / "terms.txt")


def test_an_empty_path_is_none() -> None:
    with pytest.raises(ZooError, match="There is no file or folder ''"):
        to_overrides([""])
    for blank in ("", " "):
        with pytest.raises(ZooError, match="inputs must be a list of files and folders"):
            find_talks([blank], source_language="en")
        with pytest.raises(ZooError, match=r"needs data\.root"):
            required(blank, corpus="folder", key="root", what="a folder")
        with pytest.raises(ZooError, match=r"needs prepare\.folder"):
            prepare(compose("prepare", [f"prepare.folder='{blank}'"]))


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nb", "a\x9bb", "a\u202eb", "M\udcfcnchen", "a\0"])
def test_a_name_that_no_log_and_no_terminal_can_have(name: str) -> None:
    with pytest.raises(ZooError, match="not UTF-8 or has control characters") as raised:
        check_talk_name(name, f"/talks/{name}.wav")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("name", ["München", "中文", "a\u3000b", "👋", "a=b (1) #2", "\u0130"])
def test_other_names_are_used(name: str) -> None:
    check_talk_name(name, name)


def test_control_characters_of_a_sentence_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise ZooError("There is no file a\x1b[2J\x9b\u202e中.wav.")

    with pytest.raises(SystemExit):
        run_script(work)
    assert capsys.readouterr().err == ("error: There is no file a\\x1b[2J\\x9b\\u202e中.wav.\n")


def test_the_cache_may_be_below_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SIMULZOO_CACHE", "~/cache")
    assert cache_root() == Path("/home/me/cache")
    monkeypatch.setenv("SIMULZOO_CACHE", "~no_such_user_here/cache")
    with pytest.raises(ZooError, match="SIMULZOO_CACHE"):
        cache_root()


@pytest.mark.parametrize("inner", ["", "prepared"])
def test_a_preparation_does_not_write_into_its_corpus(inner: str, tmp_path: Path) -> None:
    given = ["data=folder", f"data.root={tmp_path}", f"prepare.folder={tmp_path / inner}"]
    with pytest.raises(ZooError, match=r"within data\.root=.*; choose a folder outside"):
        prepare(compose("prepare", given))
    assert not list(tmp_path.iterdir())


def test_no_cell_of_the_metrics_is_a_formula(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.append({"system": "=cmd|'/c calc'!A0", "BLEU": -1.5, "knob": "m=1"})
    (row,) = csv.DictReader(file.path.read_text().splitlines())
    assert (row["system"], row["BLEU"], row["knob"]) == ("'=cmd|'/c calc'!A0", "-1.5", "m=1")


LATIN = r"""
from pathlib import Path
from zoo.runs.metrics_file import MetricsFile
MetricsFile(Path()).append({"system": "M\u00fcnchen"})
MetricsFile(Path()).append({"system": "\u4e2d", "BLEU": 1.5})
"""


def test_metrics_are_in_utf_8_in_every_locale(tmp_path: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(
        [sys.executable, "-c", LATIN],
        cwd=tmp_path,
        env={**os.environ, **locale, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    text = (tmp_path / "metrics.csv").read_text(encoding="utf-8")
    assert [row["system"] for row in csv.DictReader(text.splitlines())] == ["München", "中"]


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_list_of_weights_is_named(content: bytes, tmp_path: Path) -> None:
    with Tracker(open_run(tmp_path / "run", kind="evaluate"), config={}) as tracker:
        (tmp_path / "run" / "weights.json").write_bytes(content)
        with pytest.raises(ZooError, match=r"weights\.json is damaged"):
            tracker.record_models({"backbone": {"name": "x"}})


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.complex64]
)
def test_weights_of_other_types_are_refused(dtype: torch.dtype, tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(2, 3).to(dtype)}, tmp_path / WEIGHTS)
    with pytest.raises(ZooError, match=r"has weight as .*, which is no type of weights here"):
        tensor_files([tmp_path / WEIGHTS])


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    network = nn.Linear(3, 2, bias=False)
    save_file({"weight": torch.zeros(2, 3, dtype=torch.int64)}, tmp_path / WEIGHTS)
    with pytest.raises(ZooError, match=r"weight has the type torch\.int64, the network needs"):
        load_weights(network, tmp_path)
    save_file({"weight": torch.ones(2, 3, dtype=torch.float16)}, tmp_path / WEIGHTS)
    load_weights(network, tmp_path)
    assert network.weight.eq(1).all()


@pytest.mark.parametrize(
    "value",
    ["/d/a=b", "/d/a(1)", "/d/a#1", "/d/Müller", "/d/中文", "/d/a&b", "/d/{a", "/d/it's", "=3"],
)
def test_the_advice_for_a_value_that_needs_quotes_is_right(value: str) -> None:
    with pytest.raises(ZooError, match="with two pairs of quotes: ") as raised:
        compose("evaluate", ["system=replay", f"system.log={value}"])
    [advised] = shlex.split(str(raised.value).partition("pairs of quotes: ")[2].removesuffix("."))
    assert compose("evaluate", ["system=replay", advised]).system.log == value


def test_folders_of_rows_need_no_quotes(tmp_path: Path) -> None:
    name = "local_agreement+backbone=chat_server"
    folder = row_folder(tmp_path, 1, name, None)
    assert folder == Path("instances/01-local_agreement+backbone-chat_server")
    assert compose("evaluate", ["system=replay", f"system.log={folder}"]).system.log == str(folder)
    earlier = Path("instances") / f"01-{name}"
    (tmp_path / earlier).mkdir(parents=True)
    assert row_folder(tmp_path, 1, name, None) == earlier


def test_a_line_of_millions_of_characters_is_no_reference(tmp_path: Path) -> None:
    path = tmp_path / "ref.txt"
    path.write_text("ein Satz\n" + "x" * 6_000_000)
    with pytest.raises(ZooError, match=r"ref\.txt, line 2, has 6000000 characters"):
        text.read_lines(path)


LONG = "a" * 5000
REFUSED = {  # command and arguments: the beginning of the sentence
    f"evaluate data=folder data.root={LONG}": "aaa",
    f"evaluate data=mustc data.root={LONG}": "aaa",
    f"evaluate data=iwslt data.segments={LONG}": "aaa",
    f"evaluate data=lhotse data.cuts={LONG}": "aaa",
    f"evaluate data=huggingface data.folder={LONG}": "aaa",
    f"evaluate system=replay data=recorded system.log={LONG}": "aaa",
    f"evaluate resume={LONG}": "aaa",
    f"evaluate --config-dir {LONG}": "aaa",
    f"train experiment=infinisst_minitalks resume={LONG}": "aaa",
    f"translate {LONG}.wav": "aaa",
    f"prepare prepare.folder={LONG}": "prepare.folder=aaa",
    "prepare prepare.folder=file": "prepare.folder=file: ",
    "prepare prepare.folder=file/a/b": "prepare.folder=file/a/b: ",
    f"report {LONG}": "aaa",
}


@pytest.mark.parametrize("given", REFUSED)
def test_a_path_that_the_system_refuses(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *arguments = given.split(" ")
    (tmp_path / "file").touch()
    launch.launch_name.cache_clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{command}.py", *arguments])
    with pytest.raises(SystemExit) as left:
        COMMANDS[command]()
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {REFUSED[given]}")
    assert re.search(r"File name too long|is not a folder; choose another folder", line)
    assert len(line) < 600


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "log").touch()
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(ZooError, match=r"log cannot be read: Input/output error\.$"):
        text.read_lines(tmp_path / "log")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a"), "a cannot be read or written: P"),
        (OSError(errno.EROFS, "Read-only file system", Path("a")), "a cannot be read or written: "),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a"), ""),
        (OSError(errno.EIO, "Input/output error"), ""),
        (ValueError("Permission denied"), ""),
    ],
)
def test_which_errors_are_those_of_a_path(error: Exception, sentence: str) -> None:
    assert unusable_path(error).startswith(sentence)
    assert bool(unusable_path(error)) is bool(sentence)


@pytest.mark.parametrize(("kind", "other"), [("train", "evaluate"), ("evaluate", "train")])
def test_a_run_of_another_command_is_not_resumed(
    kind: str,
    other: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "run.json").write_text(f'{{"kind": "{other}"}}')
    (tmp_path / "overrides.yaml").write_text("[system=replay]")
    monkeypatch.setattr(sys, "argv", [f"{kind}.py", f"resume={tmp_path}"])
    with pytest.raises(SystemExit) as left:
        COMMANDS[kind]()
    assert left.value.code == 2
    assert capsys.readouterr().err == (
        f"error: {tmp_path} is a run of {other}.py, which {kind}.py cannot resume; name another "
        "folder.\n"
    )
