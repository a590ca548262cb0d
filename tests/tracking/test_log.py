"""The job log: the main process's messages, on the current stderr."""

import logging
import sys

import pytest

from zoo.tracking.log import MainProcess, StderrHandler

RECORD = logging.makeLogRecord({"msg": "%d of %d", "args": (1, 2)})


def test_a_message_goes_to_the_current_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    StderrHandler(sys.__stdout__).handle(RECORD)
    assert capsys.readouterr() == ("", "1 of 2\n")


@pytest.mark.parametrize(("rank", "logged"), [("0", "1 of 2\n"), ("1", "")])
def test_only_the_main_process_logs(
    rank: str, logged: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", rank)
    handler = StderrHandler()
    handler.addFilter(MainProcess())
    handler.handle(RECORD)
    assert capsys.readouterr().err == logged
