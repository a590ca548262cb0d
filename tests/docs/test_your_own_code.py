"""The package of docs/your_own_code.md works as it stands there, from outside the repository."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from zoo import config
from zoo.apps.evaluate import main as evaluate
from zoo.base.errors import ZooError
from zoo.base.machine import launch
from zoo.config import Config, build, run_folder
from zoo.evaluation.comparison import system_configurations

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your_own_code.md"
FILE = re.compile(r"`(my_zoo/\S+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^simulzoo evaluate (.+)$", re.MULTILINE)
COMMANDS = [shlex.split(line) for line in COMMAND.findall(PAGE.read_text(encoding="utf-8"))]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the page in an empty folder, which is the current one; no zoo is near."""
    for name, text in FILE.findall(PAGE.read_text(encoding="utf-8")):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    launch.launch_name.cache_clear()
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_zoo"]:
        del sys.modules[name]


def start(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command in this process; its exit code."""
    monkeypatch.setattr(sys, "argv", ["simulzoo", *arguments])
    try:
        evaluate()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_builds_its_systems(
    package: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, str] = {}

    def job(cfg: Config) -> None:
        for choice in system_configurations(cfg):
            seen[choice.system.name] = type(build(choice.system).policy).__name__
        (run_folder() / "result").touch()

    monkeypatch.setattr("zoo.config.job.resolve_name", lambda name: job)
    assert start(monkeypatch, *command) == 0
    assert seen in (
        {"hold_back": "HoldBack"},
        {"wait_k+policy=hold_back": "HoldBack"},
        {"ours": "HoldBack", "theirs": "LocalAgreement"},
    )


def test_the_first_command_passes_the_smoke_test(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(monkeypatch, *COMMANDS[0], "smoke=true", "logger=csv") == 0
    assert "passed: all" in capsys.readouterr().out


def test_a_mistyped_choice_or_class_is_one_sentence(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ("--config-dir", "my_zoo/conf")
    assert start(monkeypatch, *place, "policy=hold_bak") == config.BAD_INPUT
    assert "Unknown policy 'hold_bak'; choose one of: alignatt, edatt, hold_back, " in (
        capsys.readouterr().err
    )
    assert start(monkeypatch, *place, "policy=hold_back", "policy.word=1") == config.BAD_INPUT
    assert capsys.readouterr().err == (
        "error: Unknown key 'policy.word'; choose one of: policy.words. "
        "Did you mean policy.words?\n"
    )
    (package / "my_zoo/conf/policy/hold_back.yaml").write_text("_target_: my_zoo.policies.HoldBak")
    assert start(monkeypatch, *place, "policy=hold_back") == config.BAD_INPUT
    assert capsys.readouterr().err.startswith(
        "error: policy._target_ is 'my_zoo.policies.HoldBak', which cannot be imported ("
    )


def test_the_name_of_the_page_s_error_is_the_real_one() -> None:
    with pytest.raises(ZooError) as raised:
        config.compose("evaluate", ["data.root=x"])
    assert f"`{raised.value}`" in PAGE.read_text(encoding="utf-8")
