"""Handlers and a filter for the job log (``conf/hydra/job_logging/run.yaml``)."""

import logging
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from zoo.base.machine.launch import is_main_process


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

    def handleError(self, record: logging.LogRecord) -> None:
        """Drop a message that cannot be written: the disk is full, or the reader has ended."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class RunFileHandler(logging.FileHandler):
    """Opens its file at the first message; drops messages after the run folder was removed.

    A message that cannot be written is a line on stderr: a full disk ends no job.
    """

    def __init__(self, filename: str) -> None:
        super().__init__(filename, encoding="utf-8", delay=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Append one message."""
        try:
            if Path(self.baseFilename).parent.is_dir():
                super().emit(record)
        except OSError:  # of the opening; Python's handler catches the others
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Print why a message cannot be written."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        with suppress(OSError):
            print(f"{self.baseFilename} cannot be written: {error.strerror}.", file=sys.stderr)


class MainProcess(logging.Filter):
    """Drops the messages of all processes except the main process."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is logged."""
        return is_main_process()
