"""Writes the reference segments of a row with their units: JSON lines, and plain text.

``segments.jsonl`` has one line per segment. The lines of ``segments.src``, ``segments.ref`` and
``segments.hyp`` are the texts of the same segments, as ``sacrebleu`` and ``comet-score`` read them:
``sacrebleu segments.ref -i segments.hyp``.
"""

from collections.abc import Sequence
from pathlib import Path

from zoo.data.talks import Talk
from zoo.files import write_text
from zoo.formats.text import Record, json_lines
from zoo.languages import Language
from zoo.metrics.latency import LAAL, YAAL, SegmentLatency, Timing
from zoo.metrics.longform import ScoredSegment
from zoo.metrics.quality import ChrF
from zoo.metrics.rules import Rules
from zoo.types import Seconds

NAME = "segments"  # of the files


def write_segments(
    folder: Path,
    talks: Sequence[Talk],
    segments: Sequence[ScoredSegment],
    *,
    language: Language,
    rules: Rules,
) -> None:
    """Write the segments of a row.

    Each line has the talk, the number of the segment in it, offset and duration, source, reference
    and hypothesis, the delay and the elapsed time of each unit in seconds from the start of the
    segment, and scores of the segment: chrF, LAAL and YAAL, with elapsed times also LAAL_CA and
    YAAL_CA. A score that is not defined is null.

    Args:
        folder: Destination.
        talks: Talks of the row.
        segments: Segments of all talks, talk after talk.
        language: Target language.
        rules: Counting rules of the row.
    """
    sources = [segment.source for talk in talks for segment in talk.segments]
    numbers = [number for talk in talks for number in range(len(talk.segments))]
    chrf = ChrF()
    records: list[Record] = []
    for number, source, segment in zip(numbers, sources, segments, strict=True):
        records.append(
            {
                "talk": segment.talk,
                "segment": number,
                "offset": segment.offset,
                "duration": segment.duration,
                "source": source,
                "reference": segment.reference,
                "hypothesis": segment.hypothesis,
                "delays": _rounded(segment.delays),
                "elapsed": _rounded(segment.elapsed),
                "scores": {
                    "chrF": round(chrf.sentence(segment.hypothesis, segment.reference), 4),
                    **_latencies(segment, rules.length(segment.reference, language.unit)),
                },
            }
        )

    write_text(folder / f"{NAME}.jsonl", json_lines(records))
    for suffix, key in (("src", "source"), ("ref", "reference"), ("hyp", "hypothesis")):
        lines = "".join(f"{' '.join(str(record[key]).split())}\n" for record in records)
        write_text(folder / f"{NAME}.{suffix}", lines)


def _latencies(segment: ScoredSegment, reference_length: int) -> dict[str, float | None]:
    """Return the latencies of a segment in seconds, by name."""
    scores: dict[str, float | None] = {}
    metrics: dict[str, SegmentLatency] = {"LAAL": LAAL(), "YAAL": YAAL(long_form=True)}
    for suffix, times in (("", segment.delays), ("_CA", segment.elapsed)):
        if suffix and not times and segment.delays:
            continue  # no elapsed times
        timing = Timing(times, segment.duration, reference_length, segment.recording_end)
        for name, metric in metrics.items():
            value = metric.score(timing)
            scores[name + suffix] = None if value is None else round(value, 6)
    return scores


def _rounded(times: Sequence[Seconds]) -> list[Seconds]:
    """Return times rounded to microseconds."""
    return [round(time, 6) for time in times]
