"""Sources that arrive in real time, and the end of a source by Ctrl-C."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

from zoo.base.errors import ZooError
from zoo.base.machine.signals import CODES, leave_terminal
from zoo.base.types import SAMPLE_RATE, Seconds, SpeechChunk

Speed = float | Literal["max"]
PATIENCE: Seconds = 0.05  # longest sleep, so that Ctrl-C is noticed soon


class Stop:
    """Whether Ctrl-C, SIGTERM or SIGHUP has ended the sources.

    Attributes:
        requested: whether no further audio is translated.
        terminated: whether SIGTERM or SIGHUP was the reason.
        code: exit code of the last signal; None without a signal.
    """

    def __init__(self) -> None:
        self.requested = False
        self.terminated = False
        self.code: int | None = None
        self._writing = False

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Note the first Ctrl-C in the block; a second one, SIGTERM or SIGHUP end the block.

        They raise KeyboardInterrupt. A signal that the starting program ignores stays ignored.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread receives signals
            return

        def interrupted(number: int, frame: FrameType | None) -> None:
            first, self.requested = not self.requested, True
            self.terminated = self.terminated or number != signal.SIGINT
            self.code = CODES[signal.Signals(number)]
            leave_terminal(number)
            if not self._writing and (self.terminated or not first):
                raise KeyboardInterrupt

        before = {number: signal.getsignal(number) for number in CODES}
        before = {number: old for number, old in before.items() if old != signal.SIG_IGN}
        for number in before:
            signal.signal(number, interrupted)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def not_while_writing(self) -> Iterator[None]:
        """Let no signal divide the files that the block writes; the sources end after it."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False


def check_speed(speed: object) -> Speed:
    """Return a speed. Raises ZooError unless it is a number above 0 or ``max``."""
    if speed == "max":
        return "max"
    if isinstance(speed, int | float) and not isinstance(speed, bool) and 0 < speed < float("inf"):
        return float(speed)
    raise ZooError(f"speed must be a number above 0 or max, not {speed!r}.")


def arriving(
    chunks: Iterable[SpeechChunk],
    *,
    speed: Speed,
    stop: Stop,
    clock: Callable[[], Seconds] = time.monotonic,
    sleep: Callable[[Seconds], None] = time.sleep,
) -> Iterator[SpeechChunk]:
    """Yield each chunk once its last sample has arrived.

    A source that the user stops ends with the samples that have arrived.

    Args:
        chunks: chunks of a source, the last of which is final. The clock of the source starts when
            the first one is there.
        speed: seconds of the source per second, or ``max``: all samples have arrived.
        stop: whether the user has ended the source.
        clock: returns the time in seconds.
        sleep: waits for a number of seconds.
    """
    start: Seconds | None = None
    received = 0
    for chunk in chunks:
        start = clock() if start is None else start
        if speed != "max":
            due = start + (received + chunk.samples.numel()) / SAMPLE_RATE / speed
            while (remaining := due - clock()) > 0 and not stop.requested:
                sleep(min(remaining, PATIENCE))
        if stop.requested:
            arrived = chunk.samples.numel()
            if speed != "max":
                arrived = round((clock() - start) * speed * SAMPLE_RATE) - received
            # a network cannot encode less than a sample
            yield SpeechChunk(chunk.samples[: max(arrived, 1)], final=True)
            return
        received += chunk.samples.numel()
        yield chunk
