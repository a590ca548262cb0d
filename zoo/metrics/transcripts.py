"""Scores of the segments into which a system divides its source, and of their transcripts.

Truncations, flushes and transcripts are events of the stream (docs/metrics.md, section Logs).
StreamUni's paper reports the mean duration and length of segments (Table 8) and word error rates of
transcripts (Table 4, there of prefixes of sentences).
"""

from collections.abc import Sequence

from zoo.languages import Language
from zoo.metrics.asr import Normaliser
from zoo.metrics.latency import WeightedMean
from zoo.metrics.quality import ErrorRate
from zoo.metrics.scores import value_of
from zoo.metrics.signature import Score, signature
from zoo.streaming.segments import source_segments
from zoo.types import Instance


def score_segments(
    instances: Sequence[Instance], sources: Sequence[str], *, source_language: Language
) -> dict[str, Score]:
    """Score segments and transcripts of streams.

    Args:
        instances: streams with events.
        sources: source text of each stream; empty texts are not compared.
        source_language: language of the transcripts.

    Returns:
        SegmentSeconds and SegmentWords (target units per segment) if a stream was truncated or
        flushed, and TranscriptWER in percent if there are transcripts; by name.
    """
    divided = [source_segments(instance) for instance in instances]
    scores: dict[str, Score] = {}
    if any(not segment.final for segments in divided for segment in segments):
        seconds, words = WeightedMean(), WeightedMean()
        for instance, segments in zip(instances, divided, strict=True):
            for segment in segments:
                seconds.add(segment.seconds)
            words.add(len(instance.units), len(segments))
        unit = instances[0].unit
        scores["SegmentSeconds"] = _score("SegmentSeconds", seconds)
        scores["SegmentWords"] = _score("SegmentWords", words, unit=unit)

    if any(event.kind == "transcript" for instance in instances for event in instance.events):
        normaliser = Normaliser.of(source_language)
        errors = ErrorRate()
        for source, segments in zip(sources, divided, strict=True):
            if source.strip():
                transcript = source_language.join(segment.transcript for segment in segments)
                errors.update(
                    normaliser.words(transcript, source_language),
                    normaliser.words(source, source_language),
                )
        scores["TranscriptWER"] = _score(
            "TranscriptWER", errors, unit=source_language.unit, normalizer=normaliser.name
        )
    return scores


def _score(name: str, metric: WeightedMean, **facts: str) -> Score:
    """Return the score of a metric, or None as its value if it is not defined."""
    return Score(name, value_of(metric), signature(name, **facts))
