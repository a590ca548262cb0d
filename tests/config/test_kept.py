"""Kept results: each use has a copy, and a changed file is read again."""

import shutil
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from zoo.config import compose, sources
from zoo.config.kept import Kept, file_states


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of ``conf/``, from which configurations are composed."""
    folder = tmp_path / "conf"
    shutil.copytree(sources.CONF, folder)
    monkeypatch.setattr(sources, "CONF", folder)
    return folder


def test_each_use_has_a_copy() -> None:
    kept, value = Kept(), {"a": [1]}
    kept.keep("key", value, {})
    value["a"].append(2)
    first = kept.get("key")
    assert first == {"a": [1]}
    first["a"].append(3)
    assert kept.get("key") == {"a": [1]}
    assert kept.get("other") is None


def test_to_copy_a_result_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    kept.keep("key", Decimal(1), {})
    assert kept.get("key") == 1
    monkeypatch.delitem(sys.modules, "decimal")
    with pytest.raises(KeyError, match="decimal"):
        kept.get("key")


def test_an_object_of_a_class_that_was_imported_again_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = Decimal(1)
    monkeypatch.setattr("decimal.Decimal", int)
    kept = Kept()
    kept.keep("key", value, {})
    assert kept.get("key") is None


def test_a_result_is_kept_until_its_file_changes_or_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    kept = Kept()
    kept.keep("key", 1, file_states([path]))
    assert kept.get("key") == 1
    path.write_text("ab")
    assert kept.get("key") is None
    kept.keep("key", 2, file_states([path]))
    assert kept.get("key") == 2
    path.unlink()
    assert kept.get("key") is None


def test_only_the_newest_results_are_kept() -> None:
    kept = Kept(most=2)
    for number in range(3):
        kept.keep(number, -number, {})
    assert [kept.get(number) for number in range(3)] == [None, -1, -2]


def test_a_change_of_a_configuration_does_not_change_the_next_one() -> None:
    first = compose("evaluate", ["system=streamatt"])
    frames = first.policy.frames
    first.policy.frames = frames + 1
    first.evaluation.oracle_k = [77]
    second = compose("evaluate", ["system=streamatt"])
    assert second.policy.frames == frames
    assert second.evaluation.oracle_k != [77]


def test_a_changed_file_of_a_choice_is_read_again(conf: Path) -> None:
    given = ["system=streamatt", "history=punctuation"]
    assert compose("evaluate", given).history.max_tokens != 77
    path = conf / "history" / "punctuation.yaml"
    path.write_text(path.read_text() + "max_tokens: 77\n")
    assert compose("evaluate", given).history.max_tokens == 77


def test_a_changed_choice_of_a_system_changes_its_name(conf: Path) -> None:
    given = ["system=streamatt", "policy=edatt"]
    assert compose("evaluate", given).system.name == "streamatt+policy=edatt"
    path = conf / "system" / "streamatt.yaml"
    path.write_text(path.read_text().replace("policy: alignatt", "policy: edatt "))
    assert compose("evaluate", given).system.name == "streamatt"
