"""Scores of the segments into which a system divides its source, and of their transcripts.

Truncations, flushes and transcripts are events of the stream (docs/metrics.md, section Logs).
StreamUni's paper reports the mean duration and length of segments (Table 8) and word error rates of
transcripts (Table 4, there of prefixes of sentences).
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

from zoo.base.languages import Language
from zoo.base.types import Instance
from zoo.metrics.asr import Normaliser
from zoo.metrics.latency import WeightedMean
from zoo.metrics.quality import ErrorRate
from zoo.metrics.scores import value_of
from zoo.metrics.signature import Score, signature
from zoo.streaming.segments import source_segments

UNMATCHED = ("LostWords", "InventedWords", "DoubledWords")  # scores of words without counterpart
RUN = 3  # words; shorter runs of words without counterpart are errors of any recogniser


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


def score_written(
    instances: Sequence[Instance], references: Sequence[str], *, language: Language
) -> dict[str, Score]:
    """Score written transcripts: translations into the language of the source.

    Texts are normalised and compared as whole talks. A run of fewer than ``RUN`` words is counted
    as an error of recognition by WER alone.

    Args:
        instances: streams.
        references: transcript of each stream.
        language: language of the texts.

    Returns:
        WER in percent, and the numbers of words that are lost (in the reference only), invented (in
        the output only), and doubled (in the output only, and equal to the words next to them); by
        name.
    """
    normaliser = Normaliser.of(language)
    errors = ErrorRate()
    counts = dict.fromkeys(UNMATCHED, 0)
    for instance, reference in zip(instances, references, strict=True):
        wanted = normaliser.words(reference, language)
        written = normaliser.words(language.join(instance.units), language)
        errors.update(written, wanted)
        for name, count in unmatched_words(written, wanted).items():
            counts[name] += count
    facts = {"unit": language.unit, "normalizer": normaliser.name}
    return {
        "WER": _score("WER", errors, **facts),
        **{
            name: Score(name, float(count), signature(name, run=str(RUN), **facts))
            for name, count in counts.items()
        },
    }


def unmatched_words(written: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """Count the words that are lost, invented and doubled, in runs of at least ``RUN`` words.

    Args:
        written: words of the output.
        wanted: words of the reference.
    """
    counts = dict.fromkeys(UNMATCHED, 0)
    for edit in SequenceMatcher(None, wanted, written, autojunk=False).get_opcodes():
        kind, wanted_begin, wanted_end, begin, end = edit
        surplus = (end - begin) - (wanted_end - wanted_begin)
        if kind == "equal" or abs(surplus) < RUN:
            continue
        run = list(written[begin:end])
        neighbours = written[max(begin - len(run), 0) : begin], written[end : end + len(run)]
        if surplus < 0:
            counts["LostWords"] -= surplus
        elif run in map(list, neighbours):
            counts["DoubledWords"] += surplus
        else:
            counts["InventedWords"] += surplus
    return counts


def _score(name: str, metric: WeightedMean, **facts: str) -> Score:
    """Return the score of a metric, or None as its value if it is not defined."""
    return Score(name, value_of(metric), signature(name, **facts))
