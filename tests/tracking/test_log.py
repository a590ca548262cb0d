"""The job log: the main process's messages, on the current stderr."""

import logging
import sys
from pathlib import Path

import pytest

from zoo.tracking.log import MainProcess, RunFileHandler, StderrHandler

RECORD = logging.makeLogRecord({"msg": "%d of %d", "args": (1, 2)})


def test_a_message_goes_to_the_current_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    StderrHandler(sys.__stdout__).handle(RECORD)
    assert capsys.readouterr() == ("", "1 of 2\n")


def test_a_removed_run_folder_gets_no_file(tmp_path: Path) -> None:
    handler = RunFileHandler(str(tmp_path / "run" / "train.log"))
    handler.handle(RECORD)
    (tmp_path / "run").mkdir()
    assert list((tmp_path / "run").iterdir()) == []
    handler.handle(RECORD)
    handler.close()
    assert (tmp_path / "run" / "train.log").read_text() == "1 of 2\n"


@pytest.mark.parametrize(("rank", "logged"), [("0", "1 of 2\n"), ("1", "")])
def test_only_the_main_process_logs(
    rank: str, logged: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", rank)
    handler = StderrHandler()
    handler.addFilter(MainProcess())
    handler.handle(RECORD)
    assert capsys.readouterr().err == logged
