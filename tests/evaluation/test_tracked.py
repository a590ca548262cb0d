"""What W&B receives from an evaluation: the same few keys for one system and for hundreds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.runs.results import (
    joint_curves,
    log_comet,
    log_results,
    log_row,
    results_table,
    summary,
)
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.settings import MetricFacts, RowSettings
from zoo.runs.segment_table import segment_lines
from zoo.runs.tracker import Tracker


class Recorder(Tracker):
    """A tracker that keeps the keys that it would send."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def log_scores(
        self, prefix: str, scores: Any, *, labels: Any, charted: Any = (), axis: Any = None
    ) -> None:
        """Keep the keys of the scores that W&B receives."""
        if charted:
            self.keys |= {*labels, *(f"{prefix}/{name}" for name in charted)}

    def log_media(self, name: str, make: Callable[[], object]) -> None:
        """Keep the key."""
        self.keys.add(name)

    def log_summary(self, values: Any) -> None:
        """Keep the keys."""
        self.keys |= set(values)

    def log_file(self, path: Path) -> None:
        """Do nothing."""


def row(system: str, value: float, bleu: float, **changed: Any) -> Row:
    scores = {"BLEU": bleu, "StreamLAAL": value / 2, "LongAP": 0.5, "COMET": bleu / 100}
    facts: dict[str, Any] = {
        "scores": scores,
        "settings": RowSettings(
            weights={"backbone.name": "a/b"},
            parameters=7,
            convention="queue",
            metrics={"COMET": MetricFacts(axis="quality")},
        ),
        "knob": KnobValue("m", value),
        **changed,
    }
    return Row(
        system,
        facts.pop("knob"),
        data="minitalks",
        split="tst",
        source_language="en",
        target_language=facts.pop("target_language", "de"),
        signatures={},
        instances="",
        **facts,
    )


def keys(rows: list[Row]) -> set[str]:
    tracker = Recorder()
    for one in rows:
        log_row(tracker, one)
    log_results(tracker, rows, [], folder=Path(), plot=Path(), page=Path())
    return tracker.keys


def test_the_keys_of_one_system_are_those_of_hundreds() -> None:
    oracle = row("wait-k oracle", 3, 99.0, kind="oracle")
    one = keys([row("a", 1, 20.0), oracle])
    many = keys([*(row(f"s{n}", m, 20.0) for n in range(300) for m in (1, 2)), oracle])
    assert one == many
    assert {"system", "knob", "tst/en-de/BLEU", "results", "curves/BLEU", "report"} <= one
    assert "tst/en-de/LongAP" not in one, "the table of results has it"
    assert len(one) < 20


def test_comet_scores_follow_with_the_latency_of_their_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(
        Recorder,
        "log_scores",
        lambda self, prefix, scores, **facts: sent.append({"scores": scores, **facts}),
    )
    scores = {"BLEU": 20.0, "StreamLAAL": 0.5, "COMET": 0.8, "DocCOMET": 0.7}
    scored = row("a", 1, 20.0, scores=scores, settings=RowSettings(comet={"COMET": "owner/model"}))
    log_comet(Recorder(), [scored])
    (one,) = sent
    assert one["scores"] == {"StreamLAAL": 0.5, "COMET": 0.8, "DocCOMET": 0.7}
    assert one["axis"] == "StreamLAAL"
    assert "COMET" in one["charted"]
    assert "DocCOMET" not in one["charted"]


def test_the_table_has_every_row_with_its_origin() -> None:
    flagged = row("b", 2, 30.0, flags=("loops", "late"), knob=None)
    columns, lines = results_table([row("a", 1, 20.0), flagged], commit="c0ffee")
    first, second = (dict(zip(columns, line, strict=True)) for line in lines)
    assert first == {
        "system": "a",
        "knob": "m",
        "value": 1.0,
        "kind": "system",
        "data": "minitalks",
        "split": "tst",
        "direction": "en-de",
        "BLEU": 20.0,
        "StreamLAAL": 0.5,
        "LongAP": 0.5,
        "COMET": 0.2,
        "flags": "",
        "convention": "queue",
        "weights": "a/b",
        "parameters": 7,
        "commit": "c0ffee",
    }
    assert second["flags"] == "loops; late"


def test_one_chart_has_the_lines_of_all_systems() -> None:
    rows = [row("a", 2, 30.0), row("a", 1, 20.0), row("b", 1, 25.0)]
    charts = joint_curves(rows)
    assert charts == {
        ("StreamLAAL", "BLEU"): {"a": [(1.0, 30.0), (0.5, 20.0)], "b": [(0.5, 25.0)]},
        ("StreamLAAL", "COMET"): {"a": [(1.0, 0.3), (0.5, 0.2)], "b": [(0.5, 0.25)]},
    }
    spanish = row("a", 1, 1.0, target_language="es")
    assert set(joint_curves([*rows, spanish])["StreamLAAL", "BLEU"]) == {
        "a (tst/en-de)",
        "b (tst/en-de)",
        "a (tst/en-es)",
    }


@pytest.mark.parametrize("name", ["BLEU", "ASR_BLEU", "COMET", "XCOMET_XL", "CometKiwi"])
def test_qualities_with_a_chart(name: str) -> None:
    scores = {"StreamLAAL": 1.0, name: 20.0, "chrF": 40.0, "StartOffset": 1.0}
    (chart,) = joint_curves([row("a", 1, 20.0, scores=scores)])
    assert chart[1] == name


def test_the_summary_has_the_best_row_that_can_be_trusted() -> None:
    rows = [
        row("a", 1, 20.0),
        row("b", 2, 40.0),
        row("c", 3, 90.0, flags=("copies",)),
        row("oracle", 3, 99.0, kind="oracle"),
        row("d", 1, 10.0, target_language="es", flags=("late",)),
    ]
    found = summary(rows)
    assert (found["tst/en-de/best"], found["tst/en-de/BLEU"]) == ("b m=2", 40.0)
    assert found["tst/en-de/StreamLAAL"] == 1.0
    assert (found["tst/en-es/best"], found["tst/en-es/BLEU"]) == ("d m=1", 10.0)
    assert segment_lines(rows, []) == []
