"""Checks of recorded streams, before anything is scored.

What can never be right is an error. What is strange but possible, such as a loop of hundreds of
words in a short stream, is scored and flagged (``zoo.metrics.flags``).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, get_args

from zoo.base.disk.parsing import MALFORMED
from zoo.base.errors import ZooError
from zoo.base.talks import check_talk_name
from zoo.base.types import Convention, EventKind, Instance, Seconds, StreamEvent
from zoo.formats.text import Record

LONGEST: Seconds = 30 * 24 * 3600  # longest accepted stream
# Most different units per second of source in a log; nobody speaks a tenth as fast. A network that
# repeats itself writes more units, but not more different ones.
FASTEST = 100.0
# Most different units per second of received source in a stream, and most units in a log; a first
# chunk can have many units.
FASTEST_BURST = 1000.0
# Ratio of two times of a stream, or of a log, above which one of them has another unit.
OTHER_UNIT = 100.0
SLOWEST = 500.0  # most seconds of elapsed time per second of delay in a log
# A tool may pad the last chunk, so that a delay is after the end of the source. No model has a
# longer window than this.
LONGEST_PADDING: Seconds = 30.0
ROUNDING: Seconds = 1e-3  # rounding error of times of other tools
LARGEST = 1e12  # largest accepted number of a field


@contextmanager
def reading(path: Path, line: int, format: str) -> Iterator[None]:
    """Turn errors of a field of another shape into a ZooError that names the line.

    Args:
        path: the log.
        line: number of the line.
        format: name of the format that is expected.
    """
    try:
        yield
    except MALFORMED as error:
        raise ZooError(
            f"{path}, line {line}, is not a log in the format {format!r} ({error!r})."
        ) from error


def check_stream(instance: Instance, where: str, *, forward: bool, whole: bool = True) -> None:
    """Check the times and texts of a recorded stream.

    Args:
        instance: The stream.
        where: File, line and talk, for the messages.
        forward: Whether delays must not decrease.
        whole: Whether the stream is a whole recording of another tool. The units of a segment of a
            recording may have been written before or long after the segment.

    Raises:
        ZooError: A duration, delay or elapsed time is impossible, a value is no text, or the
            convention is unknown.
    """
    check_talk_name(instance.talk, where)
    length = instance.source_length
    if not 0 < length <= LONGEST:
        raise ZooError(f"{where} has a source of {length:g} s; it must be above 0 and finite.")
    for name, times in (("delay", instance.delays), ("elapsed time", instance.elapsed)):
        wrong = next((time for time in times if not isfinite(time)), None)
        if wrong is not None:
            raise ZooError(f"{where} has a {name} of {wrong:g} s; it must be a finite number.")
    if whole:
        _check_times(instance, where)
    check_chunks(instance, where)
    pairs = zip(instance.delays, instance.delays[1:], strict=False)
    back = next((later for earlier, later in pairs if later < earlier), None)
    if forward and back is not None:
        raise ZooError(f"{where} has delays that go back in time, to {back:g} s.")
    if instance.convention not in get_args(Convention):
        choices = ", ".join(get_args(Convention))
        raise ZooError(
            f"{where} has the convention {instance.convention!r}; it must be one of: {choices}."
        )
    if not isinstance(instance.batched, bool):
        raise ZooError(f"{where} has {instance.batched!r} for 'batched', which is true or false.")
    for text in (instance.talk, instance.text, instance.reference, *instance.units):
        check_text(text, where)


def _check_times(instance: Instance, where: str) -> None:
    """Check that the times of a whole recording are possible.

    Args:
        instance: The stream.
        where: File, line and talk, for the messages.

    Raises:
        ZooError: A time is negative, a delay is long after the end of the source, or delays or
            elapsed times have another unit than the others.
    """
    index = f"(index {instance.index})"
    for name, times in (("delay", instance.delays), ("elapsed time", instance.elapsed)):
        least = min(times, default=0.0)
        if least < -ROUNDING:
            raise ZooError(f"{where} has a {name} of {least:g} s {index}; it must be at least 0.")
    length, latest = instance.source_length, max(instance.delays, default=0.0)
    different = len(set(instance.units))
    if latest > 0 and different > FASTEST_BURST * latest and latest * OTHER_UNIT < length:
        raise ZooError(
            f"{where} has {different} different units after {latest:g} s of its {length:g} s "
            f"{index}; are its delays seconds instead of milliseconds?"
        )
    if latest > min(2 * length, length + LONGEST_PADDING):
        raise ZooError(
            f"{where} has a delay of {latest:g} s, long after the end of its source ({length:g} s) "
            f"{index}."
        )
    elapsed = max(instance.elapsed, default=latest)
    if elapsed * OTHER_UNIT < latest:
        raise ZooError(
            f"{where} has elapsed times up to {elapsed:g} s beside delays up to {latest:g} s "
            f"{index}; are they seconds instead of milliseconds?"
        )


def check_log(instances: Sequence[Instance], path: Path) -> None:
    """Check the unit of the times of whole recordings.

    All streams together are checked, because a network may write any number of units in one of
    them.

    Args:
        instances: All streams of a log.
        path: The log, for the message.

    Raises:
        ZooError: The streams are so fast or slow that their times must have another unit.
    """
    length = sum(one.source_length for one in instances)
    different = sum(len(set(one.units)) for one in instances)
    if different > FASTEST * length:
        raise ZooError(
            f"{path} has {different} different units in {length:g} s of source; are its times "
            "seconds instead of milliseconds?"
        )
    written = [one for one in instances if one.units]
    units = sum(len(one.units) for one in written)
    latest = sum(max(one.delays, default=0.0) for one in written)
    length = sum(one.source_length for one in written)
    if latest > 0 and units > FASTEST_BURST * latest and latest * OTHER_UNIT < length:
        raise ZooError(
            f"{path} has {units} units after {latest:g} s of {length:g} s of source; are its "
            "delays seconds instead of milliseconds?"
        )
    elapsed = sum(max(one.elapsed, default=0.0) for one in written)
    if latest > 0 and elapsed > SLOWEST * latest:
        raise ZooError(
            f"{path} has elapsed times up to {elapsed:g} s beside delays up to {latest:g} s; are "
            "they in another unit than milliseconds?"
        )


def check_chunks(instance: Instance, where: str) -> None:
    """Check the chunks of a recorded stream and what belongs to them.

    Events of a stream without times of chunks have the number 0.

    Args:
        instance: The stream.
        where: File, line and talk, for the messages.

    Raises:
        ZooError: A time is impossible or goes back, a unit belongs to no chunk, or an event has a
            field of another type.
    """
    arrival = 0.0
    for chunk in instance.chunks:
        if not (arrival <= chunk.arrival <= LONGEST and 0 <= chunk.compute <= LONGEST):
            raise ZooError(
                f"{where} has a chunk at {chunk.arrival:g} s with {chunk.compute:g} s of "
                "computation; chunks do not go back in time, and computation is at least 0."
            )
        arrival = chunk.arrival
    number = len(instance.chunks)
    if number and len(instance.chunk_indices) != len(instance.units):
        raise ZooError(
            f"{where} has {len(instance.units)} units but {len(instance.chunk_indices)} numbers of "
            "chunks."
        )
    if any(type(index) is not int or not 0 <= index < number for index in instance.chunk_indices):
        raise ZooError(f"{where} has units of chunks that it lacks.")
    stages = instance.stages
    times = () if stages is None else (*stages.seconds.values(), stages.cpu)
    if not all(0 <= seconds <= LONGEST for seconds in times):
        raise ZooError(f"{where} has a stage of its compute with an impossible time.")
    for event in instance.events:
        if type(event.chunk) is not int or not 0 <= event.chunk < max(number, 1):
            raise ZooError(f"{where} has events of chunks that it lacks.")
        if event.kind not in get_args(EventKind) or not isfinite(event.at):
            raise ZooError(f"{where} has an event {event.kind!r} at {event.at:g} s.")
        counts = (event.tokens, event.frames)
        if any(type(count) is not int or count < 0 for count in counts):
            raise ZooError(f"{where} has an event whose tokens or frames are no counts.")
        for text in (event.text, event.reason):
            check_text(text, where)
        counted = [(type(count), type(chunk)) for count, chunk in event.pieces]
        if any(kinds != (int, int) for kinds in counted) or not all(
            count > 0 and 0 <= chunk < number for count, chunk in event.pieces
        ):
            raise ZooError(f"{where} has deleted text of chunks that it lacks.")
        if event.pieces and sum(count for count, _ in event.pieces) != len(event.text):
            raise ZooError(f"{where} has deleted text whose pieces have another length.")


def read_event(record: Mapping[str, Any]) -> StreamEvent:
    """Return the event of a JSON object, whose lists become tuples."""
    pieces = tuple((count, chunk) for count, chunk in record.get("pieces", ()))
    return StreamEvent(**{**record, "pieces": pieces})


def check_text(text: object, where: str) -> None:
    """Raise ZooError unless a value is a text."""
    if not isinstance(text, str):
        raise ZooError(f"{where} has {text!r} where a text must be.")


def text_field(record: Record, key: str, where: str) -> str:
    """Return a text of a JSON object.

    Args:
        record: The object.
        key: Name of the field.
        where: File and place of the object, for the messages.

    Raises:
        ZooError: The field is missing or no text.
    """
    value = _field(record, key, where)
    if not isinstance(value, str):
        raise ZooError(f"{where} has {value!r:.60} for {key!r}, which must be a text.")
    return value


def number_field(record: Record, key: str, where: str) -> float:
    """Return a number of a JSON object that is at least 0.

    Args:
        record: The object.
        key: Name of the field.
        where: File and place of the object, for the messages.

    Raises:
        ZooError: The field is missing, no number or negative.
    """
    value = _field(record, key, where)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise ZooError(
            f"{where} has {value!r:.60} for {key!r}, which must be a number of at least 0."
        )
    return float(value)


def object_field(record: Record, key: str, where: str) -> list[tuple[str, Record]]:
    """Return a list of objects of a JSON object, each after its place for messages.

    Args:
        record: The object.
        key: Name of the field.
        where: File and place of the object, for the messages.

    Raises:
        ZooError: The field is missing or no list of objects.
    """
    value = _field(record, key, where)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ZooError(f"{where} has {value!r:.60} for {key!r}, which must be a list of objects.")
    return [(f"{where}, {key} {number}", item) for number, item in enumerate(value, start=1)]


def _field(record: Record, key: str, where: str) -> object:
    """Return a value of a JSON object. Raises ZooError if it has no such field."""
    if key not in record:
        raise ZooError(f"{where} has no {key!r}.")
    return record[key]
