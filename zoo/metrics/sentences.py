"""Scores of single sentences, one stream each, as SimulEval gives them. Knows no re-segmentation."""

from collections.abc import Sequence
from dataclasses import replace

from zoo.errors import ZooError
from zoo.languages import Language
from zoo.metrics.latency import SENTENCE_METRICS, Timing
from zoo.metrics.references import check_units
from zoo.metrics.rules import find_rules
from zoo.metrics.scores import ElapsedInfo, Scorer, prepare_instances
from zoo.metrics.signature import Score
from zoo.metrics.speech import SpeechATD
from zoo.types import Convention, Instance


def score_sentences(
    instances: Sequence[Instance],
    references: Sequence[str] | None = None,
    *,
    language: Language,
    convention: Convention = "queue",
    rules: str = "zoo",
    speaking: bool = False,
    sync: bool = False,
) -> dict[str, Score]:
    """BLEU, chrF, AL, LAAL, AP, DAL, ATD, YAAL, StartOffset, EndOffset (each also _CA) and RTF by name, in seconds.

    references: one text per stream (None: each stream's own). speaking: StartOffset and EndOffset are those of the
    target speech, whose gaps, overlap and token delay (``SpeechATD``) are scored too. The rest as in
    ``zoo.metrics.longform.score_talks``.
    Raises ZooError for a stream without reference or with unequal numbers of units and times.
    """
    texts = (
        [instance.reference for instance in instances] if references is None else list(references)
    )
    if len(texts) != len(instances):
        raise ZooError(f"There are {len(instances)} streams to score but {len(texts)} references.")
    for instance, text in zip(instances, texts, strict=True):
        check_units(instance)
        if not text.strip():
            raise ZooError(f"Talk {instance.talk!r} (index {instance.index}) has no reference.")
    counting = find_rules(rules)
    streams = prepare_instances(instances, convention, counting)
    scorer = Scorer(language, counting, ElapsedInfo.of(streams), {}, {"sync_on_compute": sync})
    timings = [
        Timing(stream.delays, stream.source_length, counting.length(text, language.unit))
        for stream, text in zip(streams, texts, strict=True)
    ]
    scores = scorer.quality([stream.text.strip() for stream in streams], texts)
    for name, metric in SENTENCE_METRICS.items():
        scores.append(scorer.latency(name, metric(**scorer.options), timings))
        if scorer.aware.available:
            aware = [
                replace(t, times=s.elapsed, ideal=t.times)
                for t, s in zip(timings, streams, strict=True)
            ]
            scores.append(scorer.latency(f"{name}_CA", metric(**scorer.options), aware))
    if speaking:
        scores.extend(scorer.speech({"SpeechATD": SpeechATD}, streams))
    scores.extend(scorer.streams(streams, speaking=speaking))
    return {score.name: score for score in scores}
