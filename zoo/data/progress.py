"""Progress of long work on data: a bar on a terminal, a few lines elsewhere."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import track

LINES = 10  # at most, if stderr is not a terminal

Item = TypeVar("Item")


def with_progress(items: Iterable[Item], *, total: int, description: str) -> Iterator[Item]:
    """Yield the items and report on stderr how many are done.

    Args:
        items: results of the work, computed while this function iterates.
        total: number of items.
        description: name of the work, such as "Synthesising minitalks tst".
    """
    console = Console(stderr=True)
    is_terminal = console.is_terminal
    bar = track(
        items, description=description, total=total, console=console, disable=not is_terminal
    )
    for done, item in enumerate(bar, start=1):
        yield item
        if not is_terminal and done * LINES // total > (done - 1) * LINES // total:
            line = f"{description}: {done} of {total}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
