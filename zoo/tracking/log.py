"""What the job log needs beside Python's handlers (``conf/hydra/job_logging/run.yaml``)."""

import logging
import sys
from pathlib import Path
from typing import TextIO

from zoo.tracking.launch import is_main_process


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is when a message is logged, not when the handler was made."""

    @property
    def stream(self) -> TextIO:
        """The current ``sys.stderr``."""
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Python's handler sets its stream once; it is not kept."""


class RunFileHandler(logging.FileHandler):
    """Opens its file at the first message; drops messages once the run folder is removed."""

    def __init__(self, filename: str) -> None:
        super().__init__(filename, encoding="utf-8", delay=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Append one message."""
        if Path(self.baseFilename).parent.is_dir():
            super().emit(record)


class MainProcess(logging.Filter):
    """Drops the messages of all processes but the main one."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message is logged."""
        return is_main_process()
