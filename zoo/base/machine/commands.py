"""Commands: their arguments, their output, and how one ends on bad input."""

import logging
import os
import select
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

from zoo.base.disk.files import explained_disk
from zoo.base.errors import BAD_INPUT, CLOSED_PIPE, ZooError
from zoo.base.machine.signals import interruptible
from zoo.base.talks import HIDDEN


def named_path(text: str) -> Path:
    """Return the path that a word of a command line names.

    Raises ArgumentTypeError for a blank word, which ``Path`` takes for the current folder.
    """
    if not text.strip():
        raise ArgumentTypeError("there is no file or folder ''")
    return Path(text)


def exit_with(message: str) -> NoReturn:
    """Print an error message and end the process.

    Control characters in it, as of the name of a file, are escaped.
    """
    escaped = HIDDEN.sub(lambda sign: ascii(sign[0])[1:-1], message)
    with suppress(OSError):  # nobody reads stderr any more
        print(f"error: {escaped}", file=sys.stderr)
    sys.exit(BAD_INPUT)


def check_current_folder() -> None:
    """Raise ZooError if the current folder was removed."""
    try:
        Path.cwd()
    except OSError as error:
        raise ZooError(
            f"The current folder cannot be used ({error.strerror}); change to another one."
        ) from error


def prepare_output() -> None:
    """Let stdout and stderr print escapes for characters that their encoding lacks.

    Without it, a Chinese word on a Latin-1 terminal or in a log of a batch job would end the
    program in a traceback. A message that cannot be logged, as on a full disk, is dropped: Python
    would print a traceback for each. A stream that the starting shell has closed is that of
    /dev/null; otherwise, the next file that is opened would receive what is printed.
    """
    logging.raiseExceptions = False
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the smallest free number
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def ending_with_reader() -> Iterator[None]:
    """End the process without a message if the reader of its output ends, such as ``head``."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        if not _has_no_reader(sys.stdout.fileno()):
            raise  # another pipe, such as that of a worker
        # the interpreter writes what remains when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CLOSED_PIPE)


def _has_no_reader(descriptor: int) -> bool:
    """Return whether the reader of a pipe has closed it."""
    pipe = select.poll()
    pipe.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0))


@interruptible()
@ending_with_reader()
def run_script(main: Callable[[], object], folder: Path = Path()) -> None:
    """Log to stderr and call ``main``; print a ``ZooError`` to stderr and exit with code 2.

    A full disk and a path that the system refuses are such errors.

    Args:
        main: the work.
        folder: folder that it writes to.
    """
    prepare_output()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        check_current_folder()
        with explained_disk(folder):
            main()
    except ZooError as error:
        exit_with(str(error))
