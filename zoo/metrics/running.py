"""StreamLAAL of a stream that has not ended: of the reference segments that it has passed."""

from collections.abc import Sequence

from zoo.base.languages import Language
from zoo.base.types import Instance, Seconds
from zoo.metrics.latency import LAAL, Timing
from zoo.metrics.longform import timed_segments
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.resegmentation import MWER
from zoo.metrics.rules import find_rules
from zoo.metrics.scores import prepare_instances, value_of


def running_latency(
    instance: Instance,
    references: Sequence[ReferenceSegment],
    *,
    language: Language,
    final: bool,
) -> dict[str, float | None]:
    """Score what a stream has emitted so far, as ``score_talks`` scores a whole talk.

    The units are assigned to all segments that have begun, because some of the newest belong to the
    one that is being spoken. Only the segments whose speech has ended are averaged; at the end of
    the stream, all.

    Args:
        instance: The stream so far.
        references: All reference segments of the talk, in order of time.
        language: Target language.
        final: Whether the stream has ended.

    Returns:
        ``StreamLAAL`` and ``StreamLAAL_CA`` in seconds (None: undefined so far), and ``segments``,
        the number of averaged segments.
    """
    rules = find_rules("zoo")
    (talk,) = prepare_instances([instance], "queue", rules)
    begun = begun_segments(references, instance.source_length)
    if not begun:
        return {"StreamLAAL": None, "StreamLAAL_CA": None, "segments": 0}
    segments = [
        segment
        for segment in timed_segments(talk, begun, language=language, resegmenter=MWER, rules=rules)
        if final or segment.offset + segment.duration <= instance.source_length
    ]
    ideal, computation_aware = LAAL(), LAAL()
    for segment in segments:
        length = rules.length(segment.reference, language.unit)
        for metric, times in (
            (ideal, segment.stream_delays),
            (computation_aware, segment.stream_elapsed),
        ):
            metric.update(Timing(times, segment.stream_length, length, segment.recording_end))
    return {
        "StreamLAAL": value_of(ideal),
        "StreamLAAL_CA": value_of(computation_aware),
        "segments": len(segments),
    }


def begun_segments(
    references: Sequence[ReferenceSegment], received: Seconds
) -> list[ReferenceSegment]:
    """Return the segments that have begun.

    Args:
        references: Reference segments of a talk.
        received: Seconds of the talk that a stream has received.
    """
    return [segment for segment in references if segment.offset < received]
