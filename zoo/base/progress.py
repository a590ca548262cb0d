"""Progress of long work: a bar on a terminal, log lines elsewhere."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    track,
)

from zoo.base.types import Seconds

T = TypeVar("T")

LINES = 10  # at most, if stderr is not a terminal
TABLE_WIDTH = 100  # columns, where stdout is not a terminal

logger = logging.getLogger(__name__)


def show_progress(items: Iterable[T], *, total: int, title: str) -> Iterator[T]:
    """Yield ``items`` and show how many of them are done.

    Args:
        items: results of the work, computed while this function iterates.
        total: number of items.
        title: name of the work, such as "Synthesising minitalks tst".
    """
    console = Console(stderr=True)
    if console.is_terminal:
        yield from track(items, description=title, total=total, console=console)
        return
    for done, item in enumerate(items, start=1):
        yield item
        if done * LINES // total > (done - 1) * LINES // total:
            logger.info("%s: %d of %d", title, done, total)


@contextmanager
def audio_progress(title: str, seconds: Seconds) -> Iterator[Callable[[Seconds], None]]:
    """Yield a function to call with every further piece of audio that is done.

    Args:
        title: name of the work.
        seconds: all audio that the work takes.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=seconds)
        yield lambda done: bar.advance(task, done)
    if not console.is_terminal:
        logger.info("%s: %.0f s of audio", title, seconds)


def wide_console() -> Console:
    """Return a console as wide as the terminal, or ``TABLE_WIDTH`` columns elsewhere."""
    console = Console()
    known = console.is_terminal or "COLUMNS" in os.environ
    return console if known else Console(width=TABLE_WIDTH)
