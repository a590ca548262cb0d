"""Checks of recorded streams, before anything is scored."""

from math import isfinite
from typing import get_args

from zoo.errors import ZooError
from zoo.types import Convention, Instance, Seconds

LONGEST: Seconds = 30 * 24 * 3600  # of a stream
FASTEST = 100.0  # units per second of source; nobody speaks a tenth as fast


def check_stream(instance: Instance, where: str, *, forward: bool, whole: bool = True) -> None:
    """Check the times and texts of a recorded stream.

    Args:
        instance: The stream.
        where: File, line and talk, for the messages.
        forward: Whether delays must not decrease.
        whole: Whether the stream is a whole recording. The units of a segment of a recording may
            have been written long after the segment.

    Raises:
        ZooError: A duration, delay or elapsed time is impossible, a text cannot be written as
            UTF-8, or the convention is unknown.
    """
    length = instance.source_length
    if not 0 < length <= LONGEST:
        raise ZooError(f"{where} has a source of {length:g} s; it must be above 0 and finite.")
    if len(instance.units) > FASTEST * length:
        raise ZooError(
            f"{where} has {len(instance.units)} units in {length:g} s; are its times seconds "
            "instead of milliseconds?"
        )
    for name, times in (("delay", instance.delays), ("elapsed time", instance.elapsed)):
        wrong = next((time for time in times if not isfinite(time)), None)
        if wrong is not None:
            raise ZooError(f"{where} has a {name} of {wrong:g} s; it must be a finite number.")
    latest = max(instance.delays, default=0.0)
    if whole and latest > 2 * length:
        raise ZooError(
            f"{where} has a delay of {latest:g} s, long after the end of its source ({length:g} s)."
        )
    pairs = zip(instance.delays, instance.delays[1:], strict=False)
    back = next((later for earlier, later in pairs if later < earlier), None)
    if forward and back is not None:
        raise ZooError(f"{where} has delays that go back in time, to {back:g} s.")
    if instance.convention not in get_args(Convention):
        choices = ", ".join(get_args(Convention))
        raise ZooError(
            f"{where} has the convention {instance.convention!r}; it must be one of: {choices}."
        )
    for text in (instance.talk, instance.text, instance.reference, *instance.units):
        check_text(text, where)


def check_text(text: object, where: str) -> None:
    """Raise ZooError unless a value is a text that can be written as UTF-8."""
    if not isinstance(text, str):
        raise ZooError(f"{where} has {text!r} where a text must be.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ZooError(f"{where} has half of a character ({text[error.start]!a}).") from error
