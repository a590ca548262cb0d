"""Hints name the command with which the user started."""

import pytest

from zoo.base.machine import hints


@pytest.mark.parametrize(
    ("started", "installed", "command"),
    [
        ("train.py", False, "python evaluate.py"),
        ("/env/bin/simulzoo train", False, "simulzoo evaluate"),
        ("my_script.py", True, "simulzoo evaluate"),
    ],
)
def test_the_command_of_an_evaluation(
    started: str, installed: bool, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [started])
    monkeypatch.setattr(hints, "INSTALLED", installed)
    assert hints.job_command("evaluate") == command


def test_a_translation_has_no_script_in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["__main__.py"])
    monkeypatch.setattr(hints, "INSTALLED", False)
    assert hints.job_command("translate") == "python -m zoo translate"
    monkeypatch.setattr("sys.argv", ["simulzoo translate"])
    assert hints.job_command("translate") == "simulzoo translate"
