"""Writes the reference segments of a row with their units: JSON lines, YAML and plain text.

``segments.jsonl`` has one line per segment, ``segments.yaml`` the place of each in its talk, as
OmniSTEval and simulstream read it. The lines of ``segments.src``, ``segments.ref`` and
``segments.hyp`` are the texts of the same segments, as ``sacrebleu`` and ``comet-score`` read them:
``sacrebleu segments.ref -i segments.hyp``.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zoo.base.disk.files import write_text
from zoo.base.languages import Language
from zoo.base.talks import Talk
from zoo.base.types import Instance, Seconds, UnitKind
from zoo.formats.references import write_spans
from zoo.metrics.latency import LAAL, MS, YAAL, Timing
from zoo.metrics.longform import TimedSegment
from zoo.metrics.quality import ChrF
from zoo.metrics.rules import Rules
from zoo.runs.rows.segments import NAME, ScoredSegment, write_segments


def segments_of(
    talks: Sequence[Talk],
    timed: Sequence[TimedSegment],
    *,
    language: Language,
    rules: Rules,
    scored: bool = True,
) -> list[ScoredSegment]:
    """Return the segments of a row with scores of their own.

    The scores are chrF, StreamLAAL, LAAL and YAAL, with elapsed times also those with _CA.

    Args:
        talks: Talks of the row.
        timed: Segments of all talks, talk after talk.
        language: Target language.
        rules: Counting rules of the row.
        scored: Whether the segments have scores; not without references.
    """
    sources = [segment.source for talk in talks for segment in talk.segments]
    numbers = [number for talk in talks for number in range(len(talk.segments))]
    chrf = ChrF()
    segments: list[ScoredSegment] = []
    for number, source, segment in zip(numbers, sources, timed, strict=True):
        scores: dict[str, float | None] = {}
        if scored:
            scores["chrF"] = round(chrf.sentence(segment.hypothesis, segment.reference), 4)
            scores |= _latencies(segment, rules, language.unit)
        segments.append(
            ScoredSegment(
                talk=segment.talk,
                segment=number,
                offset=segment.offset,
                duration=segment.duration,
                source=source,
                reference=segment.reference,
                hypothesis=segment.hypothesis,
                delays=_rounded(segment.delays),
                elapsed=_rounded(segment.elapsed),
                scores=scores,
            )
        )
    return segments


def spoken_segments(
    talks: Sequence[Talk], timed: Sequence[TimedSegment], *, language: Language, rules: Rules
) -> list[ScoredSegment]:
    """Return the segments of a row with the recognised words of its target speech.

    They have no scores: a recogniser may write neither case nor punctuation.

    Args:
        talks: Talks of the row.
        timed: Segments of all talks, talk after talk; empty without word times.
        language: Target language.
        rules: Counting rules of the row.
    """
    return segments_of(talks if timed else (), timed, language=language, rules=rules, scored=False)


def offline_segments(
    talks: Sequence[Talk], instances: Sequence[Instance], *, language: Language
) -> list[ScoredSegment]:
    """Return the segments of an offline row, whose talks are single segments, without times.

    Args:
        talks: Talks of the row.
        instances: Output for each talk.
        language: Target language.
    """
    chrf = ChrF()
    segments: list[ScoredSegment] = []
    for talk, instance in zip(talks, instances, strict=True):
        reference = language.join(segment.targets[language.code].text for segment in talk.segments)
        segments.append(
            ScoredSegment(
                talk=talk.name,
                segment=0,
                offset=0.0,
                duration=talk.duration,
                source=" ".join(segment.source for segment in talk.segments),
                reference=reference,
                hypothesis=instance.text,
                scores={"chrF": round(chrf.sentence(instance.text, reference), 4)},
            )
        )
    return segments


def write_segment_files(
    folder: Path,
    talks: Sequence[Talk],
    segments: Sequence[ScoredSegment],
    *,
    referenced: bool = True,
) -> None:
    """Write the segments of a row, also as OmniSTEval, simulstream and sacrebleu read them.

    Args:
        folder: Destination.
        talks: Talks of the row.
        segments: Segments of all talks, talk after talk.
        referenced: Whether the talks have references; otherwise there is no ``segments.ref``.
    """
    path = folder / NAME
    write_segments(path, segments)
    write_spans(path.with_suffix(".yaml"), talks)
    texts = {"src": "source", "ref": "reference", "hyp": "hypothesis"}
    for suffix, name in texts.items():
        if suffix != "ref" or referenced:
            lines = (" ".join(getattr(segment, name).split()) for segment in segments)
            write_text(path.with_suffix(f".{suffix}"), "".join(f"{line}\n" for line in lines))


def _latencies(segment: TimedSegment, rules: Rules, unit: UnitKind) -> dict[str, float | None]:
    """Return the latencies of a segment in seconds, by name."""
    length = rules.length(segment.reference, unit)
    scores: dict[str, float | None] = {}
    kinds = (
        ("", segment.delays, segment.stream_delays),
        ("_CA", segment.elapsed, segment.stream_elapsed),
    )
    for suffix, times, stream_times in kinds:
        if suffix and not times and segment.delays:
            continue  # no elapsed times
        timing = Timing(times, segment.duration, length, segment.recording_end)
        stream = replace(timing, times=stream_times, source_length=segment.stream_length)
        lag = LAAL().score(stream)
        values = {
            "StreamLAAL": lag / MS if rules.milliseconds and lag is not None else lag,
            "LAAL": LAAL().score(timing),
            "YAAL": YAAL(long_form=True).score(timing),
        }
        for name, value in values.items():
            scores[name + suffix] = None if value is None else round(value, 6)
    return scores


def _rounded(times: Sequence[Seconds]) -> tuple[Seconds, ...]:
    """Return times rounded to microseconds."""
    return tuple(round(time, 6) for time in times)
