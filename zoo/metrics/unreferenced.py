"""Scores of streams without references: offsets and speed, of sentences also ATD and DAL.

Quality, and the latency of whole talks, which counts from the start of each reference segment, need
references and are left out (docs/corpora.md).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from zoo.base.languages import Language
from zoo.base.types import Convention, Instance, Seconds
from zoo.metrics.latency import ATD, DAL, SegmentLatency, Timing
from zoo.metrics.longform import TimedSegment, join_units, relative_times, spacing
from zoo.metrics.references import check_units
from zoo.metrics.rules import find_rules
from zoo.metrics.scores import ElapsedInfo, Scorer, prepare_instances
from zoo.metrics.signature import Score

# Latencies of a sentence that do not depend on its reference.
SENTENCE_METRICS: dict[str, type[SegmentLatency]] = {"ATD": ATD, "DAL": DAL}


def score_without_references(
    instances: Sequence[Instance],
    *,
    language: Language,
    convention: Convention = "queue",
    rules: str = "zoo",
    with_speech: bool = False,
    sentences: bool = False,
) -> dict[str, Score]:
    """Score streams.

    Args:
        instances: The streams.
        language: Target language.
        convention: Elapsed convention; a recorded log without chunk times keeps its convention.
        rules: Name of the counting rules (``zoo.metrics.rules``).
        with_speech: Whether to compute StartOffset and EndOffset from the target speech, and also
            its gaps and overlap.
        sentences: Whether each stream is one sentence, which ATD and DAL presuppose.

    Returns:
        StartOffset, EndOffset, RTF and the metrics of sentences by name. Times are seconds.

    Raises:
        ZooError: A stream has unequal numbers of units and times.
    """
    for instance in instances:
        check_units(instance)
    counting = find_rules(rules)
    streams = prepare_instances(instances, convention, counting)
    elapsed = ElapsedInfo.of(streams)
    scorer = Scorer(language, counting, elapsed, {}, {})
    scores = scorer.streams(streams, with_speech=with_speech)
    for name, metric in SENTENCE_METRICS.items() if sentences else ():
        ideal = [Timing(stream.delays, stream.source_length, 0) for stream in streams]
        scores.append(scorer.latency(name, metric(), ideal))
        if elapsed.available:
            aware = [
                Timing(stream.elapsed, stream.source_length, 0, ideal=stream.delays)
                for stream in streams
            ]
            scores.append(scorer.latency(f"{name}_CA", metric(), aware))
    return {score.name: score for score in scores}


def segments_by_time(
    instance: Instance, spans: Sequence[tuple[Seconds, Seconds]]
) -> Iterator[TimedSegment]:
    """Yield the segments of a source, each with the units that were written from its start on.

    Without references there is no re-segmentation: this division only shows what was written when.

    Args:
        instance: The stream.
        spans: Offset and duration of each segment in seconds, in order of time, at least one.
    """
    starts = [offset for offset, _ in spans]
    spaces = spacing(instance.units, instance.text, instance.unit)
    places = [max(bisect_right(starts, delay) - 1, 0) for delay in instance.delays]
    for place, (offset, duration) in enumerate(spans):
        units = [unit for unit, segment in enumerate(places) if segment == place]
        delays = relative_times(offset, [instance.delays[unit] for unit in units])
        elapsed: tuple[Seconds, ...] = ()
        if instance.elapsed:
            elapsed = relative_times(offset, [instance.elapsed[unit] for unit in units])
        yield TimedSegment(
            talk=instance.talk,
            offset=offset,
            duration=duration,
            reference="",
            hypothesis=join_units(instance.units, spaces, units),
            delays=delays,
            elapsed=elapsed,
            stream_delays=delays,
            stream_elapsed=elapsed,
            stream_length=duration,
            recording_end=instance.source_length - offset,
        )
