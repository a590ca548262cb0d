"""The imports of a command: Ctrl-C is one sentence and the exit code of the signal.

This module imports only what Python has imported by itself, so that a command can begin with it.
"""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import PurePath
from types import FrameType

INTERRUPTED = 130  # as zoo.base.errors, whose imports take longer than this module
STDERR = 2
PACKAGE = "zoo"
SIGNALS = "zoo.base.machine.signals"
INSTALLED = "simulzoo"  # the installed command


def prepare_imports() -> None:
    """Let a command import its modules, whatever the environment and the user do meanwhile.

    Plots are files, so matplotlib receives no backend of the environment: it refuses an unknown one
    when it is imported. Ctrl-C ends the process at once, until another handler is set.

    Nothing is written while modules are imported, and an interrupted import of a compiled library
    may end in an error of its own. A signal that the starting shell ignores stays ignored.
    """
    os.environ["MPLBACKEND"] = "agg"
    _end_soon()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # Python allows handlers in the main thread only
            signal.signal(signal.SIGINT, _end)


@contextmanager
def ending_on_interrupt() -> Iterator[None]:
    """End the process at once on Ctrl-C in the block, unless the block sets another handler."""
    before = signal.getsignal(signal.SIGINT)
    prepare_imports()
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _end:
            signal.signal(signal.SIGINT, before)


@cache
def _end_soon() -> None:
    """Register ``_leave`` once, before the modules register theirs, so that it is called last."""
    atexit.register(_leave)


def _leave() -> None:
    """End a process that a signal ends, after its threads and the functions of ``atexit``.

    All files are closed here. What Python would still do, taking millions of objects of networks
    apart, takes seconds on a busy machine.
    """
    signals = sys.modules.get(SIGNALS)
    code = signals.exit_code_of_signal() if signals else None
    if code is not None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # none, without a reader, closed
                stream.flush()
        os._exit(code)


def is_command() -> bool:
    """Return whether this process is the installed command or ``python -m`` with our module."""
    if not sys.argv or sys.argv[0] != "-m":  # Python's, until it has found the module
        return bool(sys.argv) and PurePath(sys.argv[0]).name == INSTALLED
    words = sys.orig_argv[1:]
    while words and words[0].startswith("-") and words[0] != "-m":
        del words[0]
    module = words[1] if len(words) > 1 else ""
    return module.partition(".")[0] == PACKAGE


def _end(number: int, frame: FrameType | None) -> None:
    """Write one sentence and end the process."""
    os.write(STDERR, f"\nended by {signal.Signals(number).name}.\n".encode())
    os._exit(INTERRUPTED)
