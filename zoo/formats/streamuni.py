"""The output of StreamUni's released inference: one JSON list with an object per stream.

An object has the emissions of a stream and its reference segments. Times of emissions are samples
at 22 050 Hz from the start of the audio file. Times of the stream and of its segments are samples
at 16 kHz of the recording from which the audio file was cut.

The authors' latency script divides twice by the number of words up to the last emission, whose time
it also takes for the length of the source, so the latencies that it prints are not comparable.
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.talks import Segment, Target
from zoo.base.types import SAMPLE_RATE, Instance, Seconds
from zoo.formats.checks import check_stream, number_field, object_field, text_field
from zoo.formats.text import Line, Record, recording_name

EMISSION_RATE = 22_050  # samples per second of emissions: the tool loads audio at this rate


def instances(records: Sequence[Line], path: Path, language: Language) -> list[Instance]:
    """One instance per stream, without elapsed times, which the tool does not measure.

    The delay of every unit is the time of its emission. After a truncation the tool sets its clock
    back to read chunks again. The source received until then stays received, so the delay of a
    unit is at least that of the unit before it.

    Args:
        records: objects of the file.
        path: the file, for messages.
        language: target language.

    Raises:
        ZooError: a stream lacks a field or has one of another type, or two streams have one name.
    """
    streams: dict[str, Instance] = {}
    for index, record in enumerate(records):
        talk, where = _place(record, path)
        if talk in streams:
            raise ZooError(f"{where} is in the file twice.")
        streams[talk] = _instance(index, record, talk, where, language)
    return list(streams.values())


def _place(record: Line, path: Path) -> tuple[str, str]:
    """Return the name of a stream, and file, item and name for messages."""
    item = f"{path}, item {record.line}"
    talk = recording_name(text_field(record, "audio_path", item))
    return talk, f"{item}: talk {talk!r}"


def _instance(index: int, record: Line, talk: str, where: str, language: Language) -> Instance:
    """Return a stream."""
    begin, end = (number_field(record, key, where) for key in ("begin_time", "end_time"))
    texts: list[str] = []
    units: list[str] = []
    delays: list[Seconds] = []
    for place, emission in object_field(record, "inference_translation", where):
        texts += [_one_spaced(emission, "translation", place)]
        written = language.units(texts[-1])
        units += written
        delays += [number_field(emission, "end_time", place) / EMISSION_RATE] * len(written)
    instance = Instance(
        index=index,
        talk=talk,
        source_length=(end - begin) / SAMPLE_RATE,
        text=language.join(filter(None, texts)),
        units=tuple(units),
        delays=tuple(accumulate(delays, max)),
        elapsed=(),
        unit=language.unit,
    )
    check_stream(instance, where, forward=True)
    return instance


def segments(records: Sequence[Line], path: Path, language: Language) -> list[list[Segment]]:
    """Return the reference segments of each stream.

    Args:
        records: objects of the file.
        path: the file, for messages.
        language: target language.

    Raises:
        ZooError: a stream has no segments, or a segment lacks a field, has one of another type, a
            blank reference or impossible times.
    """
    return [_segments(record, _place(record, path)[1], language) for record in records]


def _segments(record: Line, where: str, language: Language) -> list[Segment]:
    """Return the reference segments of a stream, with times from the start of its audio file."""
    if not record.get("chunks"):
        raise ZooError(
            f"{where} has no 'chunks', its segments with references; name data.segments and "
            "data.references, with times from the start of the audio file."
        )
    start = number_field(record, "begin_time", where)
    return [
        _segment(chunk, start, place, language)
        for place, chunk in object_field(record, "chunks", where)
    ]


def _segment(chunk: Record, start: float, where: str, language: Language) -> Segment:
    """Return a reference segment of a stream that starts at the sample ``start``."""
    begin, end = (number_field(chunk, f"chunk_{key}_time", where) for key in ("start", "end"))
    if not start <= begin < end:
        raise ZooError(
            f"{where} lasts from sample {begin:g} to {end:g} of a stream that starts at {start:g}."
        )
    reference = _one_spaced(chunk, "target_text", where)
    if not reference:
        raise ZooError(f"{where} has a blank 'target_text'; each segment needs a reference.")
    return Segment(
        (begin - start) / SAMPLE_RATE,
        (end - begin) / SAMPLE_RATE,
        _one_spaced(chunk, "source_text", where),
        targets={language.code: Target(reference)},
    )


def _one_spaced(record: Record, key: str, where: str) -> str:
    """Return the text of a field with single spaces between words."""
    return " ".join(text_field(record, key, where).split())
