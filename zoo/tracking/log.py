"""Handlers and a filter for the job log (``conf/hydra/job_logging/run.yaml``)."""

import logging
import sys
from pathlib import Path
from typing import TextIO

from zoo.machine.launch import is_main_process


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes each message to the value that ``sys.stderr`` has when the message is logged.

    Python's handler writes to the value that ``sys.stderr`` had when the handler was created.
    """

    @property
    def stream(self) -> TextIO:
        """The current ``sys.stderr``."""
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignore the stream that the constructor of Python's handler sets."""


class RunFileHandler(logging.FileHandler):
    """Opens its file at the first message; drops messages after the run folder was removed."""

    def __init__(self, filename: str) -> None:
        super().__init__(filename, encoding="utf-8", delay=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Append one message."""
        if Path(self.baseFilename).parent.is_dir():
            super().emit(record)


class MainProcess(logging.Filter):
    """Drops the messages of all processes except the main process."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is logged."""
        return is_main_process()
