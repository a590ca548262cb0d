"""Ctrl-C and SIGTERM end a command with a sentence and the exit code of the signal."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zoo.base.errors import HUNG_UP, INTERRUPTED, TERMINATED
from zoo.base.machine import signals
from zoo.base.machine.commands import run_script
from zoo.base.machine.signals import exit_code_of_signal, interruptible
from zoo.runs.run import open_run
from zoo.runs.tracker import Tracker


class AtOnceError(BaseException):
    """``os._exit`` in a test."""


@pytest.fixture(autouse=True)
def handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python's own handlers, as in a process that a terminal starts."""

    def leave(code: int) -> None:
        raise AtOnceError(code)

    monkeypatch.setattr(os, "_exit", leave)
    before = {number: signal.getsignal(number) for number in signals.CODES}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signals._ENDING.code, signals._ENDING.with_sigterm, signals._ENDING.advice = None, False, ""
    for number, handler in before.items():
        signal.signal(number, handler)


def lightning() -> None:
    """What Lightning does with a Ctrl-C."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(1)


def broken() -> None:
    """A library that makes another error of a Ctrl-C."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("interrupted") from None


@pytest.mark.parametrize(
    ("work", "name", "code"),
    [
        (lambda: signal.raise_signal(signal.SIGINT), "SIGINT", INTERRUPTED),
        (lambda: signal.raise_signal(signal.SIGTERM), "SIGTERM", TERMINATED),
        (lambda: signal.raise_signal(signal.SIGHUP), "SIGHUP", HUNG_UP),
        (lightning, "SIGINT", INTERRUPTED),
        (broken, "SIGINT", INTERRUPTED),
    ],
)
def test_a_signal_ends_a_command(
    work: Callable[[], None], name: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left, interruptible(with_sigterm=True):
        run_script(work)
    assert left.value.code == code
    assert capfd.readouterr().err.strip() == f"ended by {name}."


def test_a_run_says_how_it_is_continued(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with Tracker(open_run(tmp_path / "run", kind="evaluate"), config={}):
            lightning()

    with pytest.raises(SystemExit) as left:
        run_script(work)
    assert left.value.code == INTERRUPTED
    printed = capfd.readouterr().err
    assert f"ended by SIGINT; resume={tmp_path / 'run'} continues it." in printed
    assert signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, signal.default_int_handler)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_ends_it_at_once(
    first: signal.Signals, second: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        try:
            signal.raise_signal(first)
        finally:
            signal.raise_signal(second)

    with pytest.raises((AtOnceError, SystemExit)) as left, interruptible(with_sigterm=True):
        run_script(work)
    cause: BaseException | None = left.value
    while isinstance(cause, SystemExit):
        cause = cause.__cause__
    assert isinstance(cause, AtOnceError)
    assert cause.args == (signals.CODES[second],)
    assert f"{second.name} again; it ends at once." in capfd.readouterr().err


def test_handlers_are_restored_and_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible(), interruptible(with_sigterm=True):
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        assert exit_code_of_signal() is None
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
