"""Metrics of the configuration are scored beside the built-in metrics."""

from dataclasses import replace

import pytest

from tests.metrics.test_scores import DE, SEGMENTS, TALK
from zoo.base.errors import ZooError
from zoo.config import build, compose
from zoo.evaluation.score import metric_facts
from zoo.metrics.latency import SegmentLatency, Timing
from zoo.metrics.longform import score_talks
from zoo.metrics.quality import BLEU, TER, ChrF
from zoo.metrics.sentences import score_sentences
from zoo.metrics.sums import SummedMetric
from zoo.runs.rows.names import columns, find_entry
from zoo.runs.rows.row import Row
from zoo.runs.rows.settings import RowSettings


class LastUnit(SegmentLatency):
    """Time of the last unit of a segment."""

    def score(self, timing: Timing) -> float | None:
        return timing.times[-1] if timing.scorable else None


class FirstOrLastUnit(SegmentLatency):
    """Time of the first or the last unit of a segment."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        self.first = first

    def score(self, timing: Timing) -> float | None:
        return timing.times[0 if self.first else -1] if timing.scorable else None


EXTRA: dict[str, SummedMetric] = {
    "LastUnit": LastUnit(),
    "TER": TER(),
    "chrFpp": ChrF(word_order=2),
}


def test_sentences_have_extra_latency_and_quality() -> None:
    scores = score_sentences([TALK], language=DE, extra=EXTRA)
    assert scores["LastUnit"].value == 8.0
    assert scores["LastUnit_CA"].value == 8.25  # a chunk takes 0.25 s
    assert "elapsed:queue" in scores["LastUnit_CA"].signature
    assert scores["TER"].value == 0.0
    assert scores["chrFpp"].value == 100.0
    assert "nw:2" in scores["chrFpp"].signature


def test_talks_have_extra_latency_of_segments() -> None:
    scores = score_talks([TALK], [SEGMENTS], language=DE, extra=EXTRA).scores
    assert scores["LastUnit"].value == (2.0 + 3.0) / 2  # segments begin at 1.0 and 5.0
    assert scores["LastUnit_CA"].value == (2.25 + 3.25) / 2
    assert "reseg:mwer" in scores["LastUnit"].signature


def test_arguments_of_a_metric_are_in_its_signature() -> None:
    for early in (False, True):
        extra: dict[str, SummedMetric] = {"Unit": FirstOrLastUnit(first=early)}
        scores = score_sentences([TALK], language=DE, extra=extra)
        assert f"|first:{'yes' if early else 'no'}|" in scores["Unit"].signature
        assert "first:" not in scores["AL"].signature


def test_each_talk_has_the_scores_of_a_run_with_this_talk_only() -> None:
    fewer = replace(
        TALK,
        talk="fewer",
        units=TALK.units[:-1],
        delays=TALK.delays[:-1],
        elapsed=TALK.elapsed[:-1],
        chunk_indices=TALK.chunk_indices[:-1],
    )
    both = score_talks([TALK, fewer], [SEGMENTS, SEGMENTS], language=DE, each_talk=True)
    for talk, scores in zip([TALK, fewer], both.talks, strict=True):
        assert scores == score_talks([talk], [SEGMENTS], language=DE).scores
    assert both.talks[0]["chrF"] != both.talks[1]["chrF"]


def test_bleu_without_regard_to_case_has_a_score_of_whole_talks() -> None:
    extra: dict[str, SummedMetric] = {**EXTRA, "LowercaseBLEU": BLEU(DE, lowercase=True)}
    louder = replace(TALK, text=TALK.text.upper(), units=tuple(map(str.upper, TALK.units)))
    scores = score_talks([louder], [SEGMENTS], language=DE, extra=extra).scores
    assert scores["DocLowercaseBLEU"].value == pytest.approx(100)
    assert scores["DocBLEU"].value < 50
    assert "case:lc" in scores["DocLowercaseBLEU"].signature
    assert "reseg" not in scores["DocLowercaseBLEU"].signature
    assert {"DocchrF", "DocTER"}.isdisjoint(scores)


def test_every_scoring_starts_with_unused_metrics() -> None:
    first = score_sentences([TALK], language=DE, extra=EXTRA)
    again = score_sentences([TALK], language=DE, extra=EXTRA)
    assert first == again
    assert EXTRA["LastUnit"].sums == [0.0, 0.0]


def test_the_configuration_chooses_metrics_by_name() -> None:
    settings = build(
        compose(
            "evaluate", ["metric=[chrfpp,ter,lowercase_bleu]", "evaluation.recogniser=null"]
        ).evaluation
    )
    assert {name: type(metric) for name, metric in settings.metrics.items()} == {
        "chrFpp": ChrF,
        "TER": TER,
        "LowercaseBLEU": BLEU,
    }
    assert "case:lc" in settings.metrics["LowercaseBLEU"].signature()


def test_another_class_is_refused() -> None:
    given = [
        "evaluation.recogniser=null",
        "+evaluation.metrics.RTF._target_=zoo.metrics.latency.RTF",
    ]
    with pytest.raises(ZooError, match=r"evaluation\.metrics\.RTF must be a SegmentLatency"):
        build(compose("evaluate", given).evaluation)


def test_the_table_shows_extra_metrics_with_their_units() -> None:
    metrics = {"LastUnit": metric_facts(LastUnit()), "TER": metric_facts(TER())}
    row = Row(
        *("s", None, "d", "tst", "en", "de", {"TER": 1.0, "LastUnit": 2.0}, {}, ""),
        settings=RowSettings(metrics=metrics),
    )
    assert [(column.score, column.unit) for column in columns([row])][-2:] == [
        ("LastUnit", "s"),
        ("TER", ""),
    ]
    assert find_entry("LastUnit", [row]).axis == "latency"
    assert find_entry("LastUnit_CA", [row]).better == "lower"
    assert find_entry("TER", [row]).better == "lower"
    assert find_entry("TER").better is None
