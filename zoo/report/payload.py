"""Data of the HTML report's script: rows, talks and streams as JSON values."""

import math
import re
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from zoo.base.languages import Language, language
from zoo.base.talks import Talk
from zoo.base.types import Instance, Seconds, StreamEvent
from zoo.formats.speech import mix_file, target_file
from zoo.metrics.alignment import RIGHT, align, mark_repetitions
from zoo.metrics.drift import segment_lags
from zoo.report.contents import sharers
from zoo.report.palette import STYLES, places
from zoo.runs.rows.groups import by_test_set, test_set_label
from zoo.runs.rows.names import COMPUTATION_AWARE, SCORES, comet_scores, find_entry, outside_entries
from zoo.runs.rows.ratings import row_id
from zoo.runs.rows.row import Row, TestSet
from zoo.runs.rows.streams import ReportStream
from zoo.streaming.elapsed import finish_times
from zoo.streaming.playback import playback_intervals

Json = Any


def units_per_segment(stream: ReportStream) -> list[int] | None:
    """Return the number of emitted units of each segment.

    None if the hypotheses of the segments do not add up to the emitted units.
    """
    instance = stream.instance
    pieces = [_units(segment.hypothesis, instance) for segment in stream.segments]
    if [unit for piece in pieces for unit in piece] != list(instance.units):
        return None
    return [len(piece) for piece in pieces]


def lags(stream: ReportStream) -> list[Seconds | None]:
    """Return the lag of each unit in seconds behind a translation of even pace.

    The i-th of n units in a segment of S seconds with R reference units is due at offset + i * S /
    max(n, R). LAAL (Papi et al., 2022) is the mean of such lags; it sets negative times to 0 and
    leaves out units after the end of the source.

    Returns:
        One lag per unit; None for each unit if ``units_per_segment`` is None, and without
        references.
    """
    instance, counts = stream.instance, units_per_segment(stream)
    if counts is None or not _has_references(stream):
        return [None] * len(instance.units)
    due: list[Seconds] = []
    for segment, count in zip(stream.segments, counts, strict=True):
        step = segment.duration / max(count, len(_units(segment.reference, instance)), 1)
        due += [segment.offset + place * step for place in range(count)]
    return [delay - moment for delay, moment in zip(instance.delays, due, strict=True)]


def _has_references(stream: ReportStream) -> bool:
    """Return whether a segment of a stream has a reference."""
    return any(segment.reference.strip() for segment in stream.segments)


def payload(rows: Sequence[Row], streams: Sequence[ReportStream]) -> dict[str, Json]:
    """Return the JSON values of the report.

    Equal talks and references are stored once, delays once per emission.

    Args:
        rows: rows of results.
        streams: streams of the rows, in any order.
    """
    talks: dict[Hashable, int] = {}
    references: dict[tuple[str, ...], int] = {}
    sets = list(by_test_set(rows))
    styles = _styles(rows)
    encoded = [
        {
            **_stream(
                stream,
                language(rows[stream.row].target_language),
                talks=talks,
                references=references,
            ),
            "speech": _speech(stream, rows[stream.row]),
            "behind": _behind(stream),
        }
        for stream in streams
    ]
    stream_of_talk: dict[Hashable, ReportStream] = {}  # the first stream of each talk
    for stream in streams:
        stream_of_talk.setdefault(talk_key(stream), stream)
    names = dict.fromkeys(name for row in rows for name in row.scores)
    return {
        "sets": [test_set_label(key) for key in sets],
        "axes": _axes(rows),
        "digits": {name: find_entry(name, rows).digits for name in names},
        "shapes": [one.path for one in STYLES],
        "rows": [
            {
                **_row(row, sets.index(row.test_set), styles),
                "sharers": sharers(row, [one for one in rows if one.test_set == row.test_set]),
            }
            for row in rows
        ],
        "talks": [_talk(stream_of_talk[key]) for key in talks],
        "references": list(references),
        "streams": encoded,
    }


def talk_key(stream: ReportStream) -> Hashable:
    """Return a key that is equal for streams with the same audio and reference segments."""
    spans = tuple((segment.offset, segment.duration) for segment in stream.segments)
    return stream.talk.name, str(stream.talk.audio), stream.talk.offset, spans


def talks_in_order(streams: Sequence[ReportStream]) -> list[Talk]:
    """Return the talks in the order of the payload."""
    talks: dict[Hashable, Talk] = {}
    for stream in streams:
        talks.setdefault(talk_key(stream), stream.talk)
    return list(talks.values())


def _units(text: str, instance: Instance) -> list[str]:
    """Split a text into the units of an instance: words, or characters without white space."""
    return list("".join(text.split())) if instance.unit == "char" else text.split()


def _axes(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the scores that the axes of the plot offer.

    The first choices of the latency axis are the columns of the table of talks; other scores that
    have a computation-aware form follow.
    """
    present: list[str] = []
    for row in rows:
        for name, value in row.scores.items():
            if value is not None and name not in present:
                present.append(name)

    entries = (*SCORES, *outside_entries(rows))
    qualities = [entry.name for entry in entries if entry.axis == "quality"]
    latencies = [
        entry.name
        for entry in SCORES
        if entry.axis == "latency" and not entry.columns.keys().isdisjoint(("talks", "speech"))
    ]
    aware = [name for name in present if name + COMPUTATION_AWARE in present]
    return {
        "quality": [name for name in (*qualities, *comet_scores(rows)) if name in present],
        "latency": list(dict.fromkeys([*(n for n in latencies if n in present), *aware])),
    }


def _styles(rows: Sequence[Row]) -> dict[tuple[TestSet, str], tuple[int, int]]:
    """Return the colour and the marker of each system of each test set (``zoo.report.palette``)."""
    return {
        (key, system): places(place)
        for key, group in by_test_set(rows).items()
        for place, system in enumerate(
            sorted({row.system for row in group if row.kind == "system"})
        )
    }


def _row(
    row: Row, place: int, styles: Mapping[tuple[TestSet, str], tuple[int, int]]
) -> dict[str, Json]:
    """Return the JSON values of a row.

    Args:
        row: the row.
        place: index of its test set.
        styles: result of ``_styles``.
    """
    return {
        "system": row.system,
        "knob": row.knob_label,
        "order": row.knob.value if row.knob else 0,
        "kind": row.kind,
        "set": place,
        "style": styles.get((row.test_set, row.system)),
        "scores": {name: _finite(value) for name, value in row.scores.items()},
        "intervals": {
            name: [round(bound, 4) for bound in bounds] for name, bounds in row.intervals.items()
        },
        "flags": list(row.flags),
        "target": row.target_language,
        "segmented": row.has_reference_segments,
        "log": row_id(row),
    }


def _talk(stream: ReportStream) -> dict[str, Json]:
    """Return the JSON values of a talk with its words and segments; times are seconds."""
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
    stream: ReportStream,
    target: Language,
    *,
    talks: dict[Hashable, int],
    references: dict[tuple[str, ...], int],
) -> dict[str, Json]:
    """Return the JSON values of a stream.

    Args:
        stream: stream of a row.
        target: target language.
        talks: index of each talk so far; the stream's talk is added.
        references: index of each list of references so far; the stream's references are added.
    """
    instance = stream.instance
    counts = units_per_segment(stream)
    # With counts, the page's script cuts the hypotheses of the segments from the units: a segment
    # has as many units as marks.
    hypotheses = None
    if counts is None:
        hypotheses = [segment.hypothesis for segment in stream.segments]
    texts = tuple(segment.reference for segment in stream.segments)
    marks, missing = _alignment(stream, target)
    return {
        "row": stream.row,
        "talk": talks.setdefault(talk_key(stream), len(talks)),
        "references": references.setdefault(texts, len(references)),
        "separator": " " if instance.unit == "word" else "",
        "aware": bool(instance.elapsed),
        "convention": instance.convention + (", batched" if instance.batched else ""),
        "units": _spaced(instance),
        "emissions": list(_emissions(instance)),
        "lags": [lag if lag is None else round(lag, 2) for lag in lags(stream)],
        "marks": marks,
        "missing": missing,
        "hypotheses": hypotheses,
        "events": _events(instance),
    }


def _alignment(stream: ReportStream, target: Language) -> tuple[list[str], list[list[int]]]:
    """Return the marks and the missing reference units of each segment (``zoo.metrics.alignment``).

    Missing units are a flat list of pairs: the place in the hypothesis, the index in the reference.
    Without references no unit is marked and none is missing.
    """
    hypotheses = [_units(segment.hypothesis, stream.instance) for segment in stream.segments]
    if not _has_references(stream):
        return [RIGHT * len(hypothesis) for hypothesis in hypotheses], [[] for _ in hypotheses]
    aligned = [
        align(hypothesis, _units(segment.reference, stream.instance), language=target)
        for hypothesis, segment in zip(hypotheses, stream.segments, strict=True)
    ]
    marks = mark_repetitions(
        [unit for hypothesis in hypotheses for unit in hypothesis],
        "".join(found.marks for found in aligned),
        language=target,
    )
    rest = iter(marks)
    return (
        ["".join(islice(rest, len(hypothesis))) for hypothesis in hypotheses],
        [[number for pair in found.missing for number in pair] for found in aligned],
    )


def _speech(stream: ReportStream, row: Row) -> dict[str, Json] | None:
    """Return the target speech of a stream: paths of its files, and its pieces.

    Paths are relative to the report. A piece is [start, duration, computation-aware start, text],
    with times in seconds.
    """
    instance = stream.instance
    if not instance.speech:
        return None
    folder = PurePosixPath(row.instances).parent
    both = None
    if stream.talk.audio is not None:
        both = quote(str(folder / mix_file(instance.talk)))

    ideal = playback_intervals(instance.speech)
    elapsed = playback_intervals(instance.speech, computation_aware=True)
    pieces = [
        [round(start, 3), round(duration, 3), round(elapsed_start, 3), output.text]
        for (start, duration), (elapsed_start, _), output in zip(
            ideal, elapsed, instance.speech, strict=True
        )
    ]
    return {
        "target": quote(str(folder / target_file(instance.talk))),
        "both": both,
        "pieces": pieces,
    }


def _behind(stream: ReportStream) -> list[list[Seconds | None]]:
    """Return [end of the source, lag, computation-aware lag] of segments with recognised speech."""
    aware = dict(segment_lags(stream.spoken, aware=True))
    return [
        [round(end, 2), round(lag, 2), round(aware[end], 2) if end in aware else None]
        for end, lag in segment_lags(stream.spoken)
    ]


def _emissions(instance: Instance) -> Iterator[list[float]]:
    """Yield [number of units, delay, elapsed time] of consecutive units with equal times."""
    elapsed_times = instance.elapsed or instance.delays
    for (delay, elapsed), units in groupby(zip(instance.delays, elapsed_times, strict=True)):
        yield [len(list(units)), round(delay, 3), round(elapsed, 3)]


def _events(instance: Instance) -> list[list[Json]]:
    """Return [time, kind, source time, text] of the events that the page shows; times are seconds.

    Of the transcripts, those are shown that were the last ones when a unit was emitted. Of a
    revision, its elapsed time and the parts of ``_deletion`` follow.
    """
    finished = finish_times(instance.chunks, instance.convention)
    transcribed = [event.chunk for event in instance.events if event.kind == "transcript"]
    places = {bisect_right(transcribed, chunk) for chunk in instance.chunk_indices} - {0}
    needed = {transcribed[place - 1] for place in places}
    return [
        [
            round(instance.chunks[event.chunk].arrival if instance.chunks else event.at, 3),
            event.kind,
            round(event.at, 3),
            _event_text(event),
            *_deletion(event, instance, finished),
        ]
        for event in instance.events
        if event.kind != "transcript" or event.chunk in needed
    ]


def _deletion(event: StreamEvent, instance: Instance, finished: Sequence[Seconds]) -> list[Json]:
    """Return the elapsed time of a revision and what it deleted; nothing for other events.

    A word belongs to the chunk of its last character. Words of one chunk are one part: [text,
    delay, elapsed time]. Without times of chunks, the elapsed time is the source time, and there
    are no parts.

    Args:
        event: an event of a stream.
        instance: the stream.
        finished: elapsed time of each chunk.
    """
    if event.kind != "revision":
        return []
    if not instance.chunks:
        return [round(event.at, 3), []]
    chunks = [chunk for count, chunk in event.pieces for _ in range(count)]
    units = re.finditer(r"\S+" if instance.unit == "word" else r"\S\s*", event.text)
    written = [(unit[0], chunks[unit.end() - 1]) for unit in units] if chunks else []
    separator = " " if instance.unit == "word" else ""
    parts = [
        [
            separator.join(text for text, _ in group),
            round(instance.chunks[chunk].arrival, 3),
            round(finished[chunk], 3),
        ]
        for chunk, group in groupby(written, key=lambda one: one[1])
    ]
    return [round(finished[event.chunk], 3), parts]


def _event_text(event: StreamEvent) -> str:
    """Return the transcript, the deleted text, or what was dropped and why, or cut short."""
    if event.kind in ("transcript", "revision"):
        return event.text
    if event.kind == "language":
        return f"the speech is {language(event.text).name}"
    if event.kind == "no_output":
        return f"no output during {event.reason}"
    if event.kind == "unit_limit":
        return "units stopped at the maximum length: the speech may be incomplete"
    reason = f" ({event.reason})" if event.reason else ""
    return f"{event.kind}{reason}: {event.tokens} tokens and {event.frames} frames dropped"


def _spaced(instance: Instance) -> list[str]:
    """Return the units; a character has the white space that follows it in the text.

    Words in Latin letters within a text of characters stay separated thereby.
    """
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
    """Return a rounded score; None if it is not finite, because JSON has no such numbers."""
    return round(value, 4) if value is not None and math.isfinite(value) else None
