"""Scores of single sentences, one stream per sentence, as SimulEval computes them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import Convention, Instance
from zoo.metrics.degeneracy import DEGENERACY_METRICS
from zoo.metrics.latency import SENTENCE_METRICS, SegmentLatency, Timing
from zoo.metrics.references import check_units
from zoo.metrics.rules import find_rules
from zoo.metrics.scores import ElapsedInfo, Scorer, prepare_instances
from zoo.metrics.signature import Score
from zoo.metrics.speech import SpeechATD
from zoo.metrics.sums import SummedMetric


def score_sentences(
    instances: Sequence[Instance],
    references: Sequence[str] | None = None,
    *,
    language: Language,
    convention: Convention = "queue",
    rules: str = "zoo",
    with_speech: bool = False,
    extra: Mapping[str, SummedMetric] | None = None,
) -> dict[str, Score]:
    """Score sentences.

    Args:
        instances: One stream per sentence.
        references: One text per stream. None uses the references of the instances.
        language: Target language.
        convention: Elapsed convention; a recorded log without chunk times keeps its convention.
        rules: Name of the counting rules (``zoo.metrics.rules``).
        with_speech: Whether to compute StartOffset and EndOffset from the target speech, and also
            its gaps, overlap and token delay (``SpeechATD``).
        extra: More metrics by name, each a ``SegmentLatency`` or a ``CorpusQuality``.

    Returns:
        BLEU, chrF, RTF and the latency metrics AL, LAAL, AP, DAL, ATD, YAAL, StartOffset and
        EndOffset, each latency metric also computation-aware (_CA), and the diagnostics SWF, EFSW
        and DSPTV, by name. Times are seconds, shares percent.

    Raises:
        ZooError: No stream has a reference, or one has unequal numbers of units and times.
    """
    if references is None:
        references = [instance.reference for instance in instances]
    texts = list(references)
    if len(texts) != len(instances):
        raise ZooError(f"There are {len(instances)} streams to score but {len(texts)} references.")
    for instance in instances:
        check_units(instance)
    if instances and not any(text.strip() for text in texts):
        first = instances[0]
        raise ZooError(f"Talk {first.talk!r} (index {first.index}) has no reference.")

    counting = find_rules(rules)
    streams = prepare_instances(instances, convention, counting)
    elapsed = ElapsedInfo.of(streams)
    scorer = Scorer(language, counting, elapsed, {}, extra or {})
    timings = [
        Timing(stream.delays, stream.source_length, counting.length(text, language.unit))
        for stream, text in zip(streams, texts, strict=True)
    ]

    scores = scorer.quality([stream.text.strip() for stream in streams], texts)
    timings_by_suffix = {"": timings}
    if elapsed.available:
        timings_by_suffix["_CA"] = [
            replace(timing, times=stream.elapsed, ideal=timing.times)
            for timing, stream in zip(timings, streams, strict=True)
        ]
    for suffix, times in timings_by_suffix.items():
        metrics = {name: metric() for name, metric in SENTENCE_METRICS.items()}
        for name, metric in (metrics | scorer.extra_metrics(SegmentLatency)).items():
            scores.append(scorer.latency(f"{name}{suffix}", metric, times))
    for name, diagnostic in DEGENERACY_METRICS.items():
        scores.append(scorer.latency(name, diagnostic(), timings))
    if with_speech:
        scores.extend(scorer.speech({"SpeechATD": SpeechATD}, streams))
    scores.extend(scorer.streams(streams, with_speech=with_speech))
    return {score.name: score for score in scores}
