"""Hints name the command with which the user started."""

import pytest

from zoo.base.machine import hints


@pytest.mark.parametrize(
    ("started", "installed", "evaluate", "report"),
    [
        ("train.py", False, "python evaluate.py", "python -m zoo report"),
        ("/env/bin/simulzoo", False, "simulzoo evaluate", "simulzoo report"),
        ("my_script.py", True, "simulzoo evaluate", "simulzoo report"),
    ],
)
def test_the_words_of_a_command(
    started: str, installed: bool, evaluate: str, report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [started])
    monkeypatch.setattr(hints, "INSTALLED", installed)
    assert hints.job_command("evaluate") == evaluate
    assert hints.job_command("report") == hints.program("report") == report


def test_a_command_that_runpy_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/site-packages/zoo/apps/report/__main__.py"])
    monkeypatch.setattr("sys.orig_argv", ["python", "/env/bin/simulzoo", "report"])
    assert hints.program("report") == "simulzoo report"
