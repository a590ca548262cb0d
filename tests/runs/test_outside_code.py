"""Provenance of code outside of the zoo."""

import subprocess
import sys
from pathlib import Path

import pytest

from zoo.runs.outside_code import outside_code

CONFIG = {
    "system": {"_target_": "zoo.systems.base.StreamingSystem", "policy": {"_target_": "mine.P"}},
    "optimizer": {"_target_": "torch.optim.AdamW"},
    "callbacks": [{"_target_": "single.C"}, {"_target_": "absent.D"}, {"_target_": "sys.exit"}],
}


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package and a module that are not installed."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("class P: ...\n")
    (tmp_path / "single.py").write_text("class C: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def described(name: str) -> dict[str, object]:
    return next(one for one in outside_code([CONFIG]) if one["package"] == name)


def test_code_is_known_by_version_or_by_hash(code: Path) -> None:
    assert [one["package"] for one in outside_code([CONFIG])] == ["mine", "single", "torch"]
    assert described("torch")["version"]
    assert "sha256" not in described("torch")
    before = described("mine")
    assert (before["version"], before["commit"], before["dirty"]) == (None, None, None)
    (code / "mine" / "more.py").write_text("1\n")
    assert described("mine")["sha256"] != before["sha256"]
    assert described("single")["sha256"]
    assert "mine" not in sys.modules, "describing code does not run it"


def test_code_in_a_repository_has_its_commit(code: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@x")
        command = ["git", "-C", str(code), *identity, *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    assert described("mine")["commit"] == git("rev-parse", "HEAD")
    assert described("mine")["dirty"] is False
    (code / "single.py").write_text("class C: pass\n")
    assert described("single")["dirty"] is True


def test_a_configuration_of_the_zoo_alone_names_nothing() -> None:
    assert outside_code({"a": [{"_target_": "zoo.x.Y"}], "_target_": 3}) == []
