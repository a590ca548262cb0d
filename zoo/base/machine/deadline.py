"""Calls that end in time, also those of libraries that wait without a limit."""

import queue
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from zoo.base.types import Seconds

Result = TypeVar("Result")
CHECK: Seconds = 0.2  # between two checks whether the caller still waits


class LateError(Exception):
    """A call has not ended in time, or the result is no longer needed."""


def call_within(
    seconds: Seconds,
    call: Callable[[threading.Event], Result],
    cancelled: threading.Event | None = None,
) -> Result:
    """Return what a function returns, or raise what it raises.

    It runs in a thread of its own, because the search for an address, and a server that sends a
    byte now and then, end at no limit of time that a library has.

    Args:
        seconds: Longest time.
        call: The function. It receives an event that is set when nobody waits for it any more; its
            thread should end then, and it ends with the process at the latest.
        cancelled: Event that ends the waiting.

    Raises:
        LateError: If the function has not ended in time, or ``cancelled`` is set.
    """
    results: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = queue.SimpleQueue()
    abandoned = threading.Event()

    def run() -> None:
        try:
            results.put((call(abandoned), None))
        except BaseException as error:
            results.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    end = monotonic() + seconds
    try:
        while (left := end - monotonic()) > 0 and not (cancelled and cancelled.is_set()):
            try:
                result, error = results.get(timeout=min(left, CHECK))
            except queue.Empty:
                continue
            if error is not None:
                raise error
            return result  # type: ignore[return-value]
        raise LateError
    finally:
        abandoned.set()
