"""Ctrl-C, SIGTERM and SIGHUP: one sentence and the exit code of the signal; at once if repeated."""

import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from zoo.base.errors import HUNG_UP, INTERRUPTED, TERMINATED, ZooError
from zoo.base.machine.launch import is_main_process

CODES = {
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: HUNG_UP,
}
STDOUT, STDERR = 1, 2


class _Ending:
    """The end of this process by a signal.

    Attributes:
        code: exit code of the first signal; None before it.
        advice: how to continue the work, for the sentence.
        depth: number of blocks of ``interruptible`` around the work.
        with_sigterm: whether SIGTERM and SIGHUP are handled; otherwise, they kill the process.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self.with_sigterm = False
        self.advice = ""
        self.depth = 0
        self._process = os.getpid()
        self._before: dict[signal.Signals, Any] = {}

    def begin(self) -> None:
        """Handle the signals, but those that the starting shell ignores."""
        self.code, self._process = None, os.getpid()
        self._before = {number: signal.getsignal(number) for number in CODES}
        self.install()

    def install(self) -> None:
        """Set the handlers."""
        for number, before in self._before.items():
            if number == signal.SIGINT or self.with_sigterm:
                signal.signal(number, before if before == signal.SIG_IGN else self._end)

    def restore(self) -> None:
        """Restore the handlers before ``begin``; another Ctrl-C kills a process that is ending."""
        for number, before in self._before.items():
            python = before is signal.default_int_handler and self.code is not None
            signal.signal(number, signal.SIG_DFL if python else before)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """End the process; at once if it is ending already."""
        name, code = signal.Signals(number).name, CODES[signal.Signals(number)]
        if os.getpid() == self._process:  # no worker that was forked
            if self.code is not None:
                _say(f"{name} again; it ends at once.")
                os._exit(code)
            self.code = code
            _say(f"ended by {name}{self.advice}.")
            leave_terminal(number)
        raise KeyboardInterrupt if code == INTERRUPTED else SystemExit(code)


_ENDING = _Ending()


@contextmanager
def interruptible(advice: str = "", *, with_sigterm: bool = False) -> Iterator[None]:
    """End the process on Ctrl-C (exit code 130), SIGTERM (143) and SIGHUP (129) in the block.

    A sentence names the signal.

    The block ends as by an exception, so that files are closed and processes ended, and the exit
    code is that of the signal, whatever this raises. A second signal does not wait for it.

    Args:
        advice: how to continue the work of the block, for the sentence.
        with_sigterm: whether to handle SIGTERM and SIGHUP, for work with files to complete.
            Otherwise, they kill the process, also within a long call of a library.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no handlers: Python allows them in the main thread only
        return
    if _ENDING.depth == 0:
        _ENDING.begin()
    _ENDING.depth += 1
    before = _ENDING.advice, _ENDING.with_sigterm
    _ENDING.advice = f"; {advice}" if advice else _ENDING.advice
    if with_sigterm and not _ENDING.with_sigterm:
        _ENDING.with_sigterm = True
        _ENDING.install()
    try:
        yield
    except BaseException as error:
        if _ENDING.code is None:
            raise
        raise SystemExit(_ENDING.code) from error
    finally:
        _ENDING.depth -= 1
        if _ENDING.depth == 0 or _ENDING.code is None:
            _ENDING.advice, _ENDING.with_sigterm = before
            _ENDING.restore()
            if _ENDING.depth:
                _ENDING.install()


def exit_code_of_signal() -> int | None:
    """Return the exit code of the signal that ends the process; None if there was none."""
    if _ENDING.code is not None:
        _ENDING.install()  # Lightning ignores Ctrl-C once it has ended a Trainer
    return _ENDING.code


def leave_terminal(number: int) -> None:
    """Write no longer to a terminal after SIGHUP: it was closed, and each line would be an error.

    Args:
        number: Signal that was received.
    """
    if number != signal.SIGHUP:
        return
    for descriptor in (STDOUT, STDERR):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _say(sentence: str) -> None:
    """Write a sentence to stderr, past Python's buffers: the signal may have come within them."""
    try:
        if is_main_process():
            os.write(STDERR, f"\n{sentence}\n".encode())
    except (OSError, ZooError):
        pass
