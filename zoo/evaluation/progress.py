"""How far long work on audio has come. Knows no system."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from zoo.types import Seconds

Report = Callable[[Seconds], None]


@contextmanager
def progress(name: str, seconds: Seconds) -> Iterator[Report]:
    """A bar over the seconds of audio on a terminal; one line when done elsewhere."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=seconds)
        yield lambda done: bar.advance(task, done)
    if not console.is_terminal:
        console.print(f"{name}: {seconds:.0f} s of audio", highlight=False, markup=False)
