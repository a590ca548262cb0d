"""Faults of one client, of the disk or of the descriptors: a line in the log, and no end."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zoo.base.errors import shorten
from zoo.base.types import Seconds

logger = logging.getLogger(__name__)
EVERY: Seconds = 60.0  # between two lines of the same fault of the event loop


@contextmanager
def log_faults(what: str) -> Iterator[None]:
    """Log an exception of the block in one line.

    What runs for all streams goes on after the fault of one of them.

    Args:
        what: What cannot be done then, as a clause.
    """
    try:
        yield
    except Exception as error:
        logger.error("%s: %s", what, in_line(error))


def in_line(error: BaseException) -> str:
    """Return kind and text of an exception in one line, without control characters."""
    text = shorten(" ".join(str(error).split()))
    shown = "".join(sign if sign.isprintable() else "?" for sign in text)
    return f"{type(error).__name__} {shown}".strip()


class LoopFaults:
    """Logs faults of an event loop, each kind once in ``EVERY`` seconds.

    Python's own handler writes a traceback for every connection that cannot be accepted, thousands
    in a second.
    """

    def __init__(self) -> None:
        self._next: dict[str, Seconds] = {}  # time of the next line by its text

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a fault, as ``loop.set_exception_handler`` asks for it."""
        message, error = context["message"], context.get("exception")
        line = f"{message}: {in_line(error)}" if error is not None else message
        now = time.monotonic()
        if now >= self._next.get(line, now):
            self._next = {one: until for one, until in self._next.items() if until > now}
            self._next[line] = now + EVERY
            logger.error("%s", line)
            logger.debug("%s", line, exc_info=error)
