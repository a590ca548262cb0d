"""Data of the HTML report's script: rows, talks and streams as JSON values."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from zoo.data.talks import Talk
from zoo.formats.speech import mix_file, target_file
from zoo.report.results import Row
from zoo.report.table import by_test_set, knob_label, test_set, test_set_label
from zoo.streaming.playback import playback_intervals
from zoo.types import Instance, Seconds

QUALITY = ("BLEU", "chrF", "COMET", "XCOMET", "ASR_BLEU", "ASR_chrF")
# First choices of the latency axis; other scores with a computation-aware twin follow.
LATENCY = ("StreamLAAL", "LongYAAL", "StartOffset")
AWARE = "_CA"
Json = Any


@dataclass(frozen=True, slots=True)
class ReportSegment:
    """A reference segment and the hypothesis re-segmented to it.

    Attributes:
        offset: seconds from the start of the talk.
        duration: seconds.
        source: transcript.
        reference: reference translation.
        hypothesis: part of the hypothesis.
    """

    offset: Seconds
    duration: Seconds
    source: str
    reference: str
    hypothesis: str


@dataclass(frozen=True, slots=True)
class ReportStream:
    """One talk as translated by the system of one row.

    Attributes:
        row: index into the rows of the report.
        instance: emitted words with delays.
        talk: the talk.
        segments: its reference segments.
    """

    row: int
    instance: Instance
    talk: Talk
    segments: tuple[ReportSegment, ...] = ()


def units_per_segment(stream: ReportStream) -> list[int] | None:
    """Number of emitted units per segment; None where the hypotheses are not the emitted units."""
    instance = stream.instance
    pieces = [_units(segment.hypothesis, instance) for segment in stream.segments]
    if [unit for piece in pieces for unit in piece] != list(instance.units):
        return None
    return [len(piece) for piece in pieces]


def lags(stream: ReportStream) -> list[Seconds | None]:
    """Lag of each unit in seconds behind an evenly paced translation.

    The i-th of n units in a segment of S seconds with R reference units is due at offset + i * S /
    max(n, R). LAAL averages these lags after clamping and cut-off (Papi et al., 2022).

    Returns:
        One lag per unit, None where the segment of a unit is not known.
    """
    instance, counts = stream.instance, units_per_segment(stream)
    if counts is None:
        return [None] * len(instance.units)
    due: list[Seconds] = []
    for segment, count in zip(stream.segments, counts, strict=True):
        step = segment.duration / max(count, len(_units(segment.reference, instance)), 1)
        due += [segment.offset + place * step for place in range(count)]
    return [delay - moment for delay, moment in zip(instance.delays, due, strict=True)]


def payload(rows: Sequence[Row], streams: Sequence[ReportStream]) -> dict[str, Json]:
    """JSON values of the report.

    Equal talks and references are stored once, delays once per emission.

    Args:
        rows: rows of results.
        streams: streams of the rows, in any order.
    """
    talks: dict[Hashable, int] = {}
    references: dict[tuple[str, ...], int] = {}
    sets = list(by_test_set(rows))
    encoded = [
        {
            **_stream(stream, talks=talks, references=references),
            "speech": _speech(stream, rows[stream.row]),
        }
        for stream in streams
    ]
    first = {talk_key(stream): stream for stream in reversed(streams)}
    return {
        "sets": [test_set_label(key) for key in sets],
        "axes": _axes(rows),
        "rows": [_row(row, sets.index(test_set(row))) for row in rows],
        "talks": [_talk(first[key]) for key in talks],
        "references": list(references),
        "streams": encoded,
    }


def talk_key(stream: ReportStream) -> Hashable:
    """Streams with equal keys have the same audio and the same reference segments."""
    spans = tuple((segment.offset, segment.duration) for segment in stream.segments)
    return stream.talk.name, str(stream.talk.audio), stream.talk.offset, spans


def talks_in_order(streams: Sequence[ReportStream]) -> list[Talk]:
    """Talks in the order of the payload."""
    first: dict[Hashable, Talk] = {}
    for stream in streams:
        first.setdefault(talk_key(stream), stream.talk)
    return list(first.values())


def _units(text: str, instance: Instance) -> list[str]:
    return list("".join(text.split())) if instance.unit == "char" else text.split()


def _axes(rows: Sequence[Row]) -> dict[str, list[str]]:
    present = {
        name: None for row in rows for name, value in row.scores.items() if value is not None
    }
    twins = [name for name in present if name + AWARE in present and name not in LATENCY]
    return {
        "quality": [name for name in QUALITY if name in present],
        "latency": [name for name in LATENCY if name in present] + twins,
    }


def _row(row: Row, place: int) -> dict[str, Json]:
    return {
        "system": row.system,
        "knob": knob_label(row),
        "order": row.knob.value if row.knob else 0,
        "kind": row.kind,
        "set": place,
        "scores": {name: _finite(value) for name, value in row.scores.items()},
        "flags": list(row.flags),
        "target": row.target_language,
    }


def _talk(stream: ReportStream) -> dict[str, Json]:
    talk = stream.talk
    words = [word for segment in talk.segments for word in segment.words]
    return {
        "name": talk.name,
        "duration": round(talk.duration, 3),
        "language": talk.source_language,
        "words": [[word.text, round(word.start, 3), round(word.end, 3)] for word in words],
        "segments": [[round(s.offset, 3), round(s.duration, 3), s.source] for s in stream.segments],
    }


def _stream(
    stream: ReportStream, *, talks: dict[Hashable, int], references: dict[tuple[str, ...], int]
) -> dict[str, Json]:
    instance = stream.instance
    counts = units_per_segment(stream)
    texts = tuple(segment.reference for segment in stream.segments)
    return {
        "row": stream.row,
        "talk": talks.setdefault(talk_key(stream), len(talks)),
        "references": references.setdefault(texts, len(references)),
        "separator": " " if instance.unit == "word" else "",
        "aware": bool(instance.elapsed),
        "convention": instance.convention + (", batched" if instance.batched else ""),
        "units": _spaced(instance),
        "writes": list(_writes(instance)),
        "lags": [lag if lag is None else round(lag, 2) for lag in lags(stream)],
        "counts": counts,
        "hypotheses": None
        if counts is not None
        else [segment.hypothesis for segment in stream.segments],
    }


def _speech(stream: ReportStream, row: Row) -> dict[str, Json] | None:
    """Target speech of a stream: file paths relative to the report, and the pieces.

    A piece is [start, duration, computation-aware start, text], times in seconds.
    """
    instance = stream.instance
    if not instance.speech:
        return None
    folder = PurePosixPath(row.instances).parent
    aware = playback_intervals(instance.speech, aware=True)
    return {
        "target": quote(str(folder / target_file(instance.talk))),
        "both": quote(str(folder / mix_file(instance.talk)))
        if stream.talk.audio is not None
        else None,
        "pieces": [
            [round(start, 3), round(duration, 3), round(later, 3), spoken.text]
            for (start, duration), (later, _), spoken in zip(
                playback_intervals(instance.speech), aware, instance.speech, strict=True
            )
        ],
    }


def _writes(instance: Instance) -> Iterator[list[float]]:
    elapsed = instance.elapsed or instance.delays
    for (delay, wall), units in groupby(zip(instance.delays, elapsed, strict=True)):
        yield [len(list(units)), round(delay, 3), round(wall, 3)]


def _spaced(instance: Instance) -> list[str]:
    """Characters with the white space after them, so that foreign words stay separated."""
    if instance.unit == "word":
        return list(instance.units)
    spaced: list[str] = []
    for character in instance.text:
        if not character.isspace():
            spaced.append(character)
        elif spaced and not spaced[-1].endswith(" "):
            spaced[-1] += " "
    plain = [unit.rstrip(" ") for unit in spaced]
    return spaced if plain == list(instance.units) else list(instance.units)


def _finite(value: float | None) -> float | None:
    return round(value, 4) if value is not None and abs(value) < float("inf") else None
