"""The job log: the main process's messages, on the current stderr."""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from zoo.runs.log import MainProcess, RunFileHandler, StderrHandler

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


def test_a_file_that_cannot_be_written_ends_no_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in filter(os.path.exists, ["/dev/full", str(tmp_path)]):  # a full disk; no file
        handler = RunFileHandler(place)
        for _ in range(2):
            handler.handle(RECORD)
        lines = capsys.readouterr().err.splitlines()
        assert [line.startswith(f"{place} cannot be written: ") for line in lines] == [True, True]
        with suppress(OSError):
            handler.close()
