"""The table of scores: one entry each, which agrees with the metrics that compute them."""

import pytest

from zoo.metrics.latency import SENTENCE_METRICS
from zoo.metrics.longform import LONG_METRICS
from zoo.metrics.speech import SPEECH_METRICS
from zoo.runs.rows.names import SCORES, find_entry, main_score, scores_of


def test_a_score_has_one_entry() -> None:
    names = [entry.name for entry in SCORES]
    assert len(names) == len(set(names))


def test_the_built_in_metrics_have_entries() -> None:
    metrics = {*SENTENCE_METRICS, *SPEECH_METRICS, *(f"Long{name}" for name in LONG_METRICS)}
    assert metrics <= {entry.name for entry in SCORES}


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("DAL_CA", ("DAL_CA", 2, "s", "lower")),
        ("XCOMET_XL", ("XCOMET\nXL", 4, "", "higher")),
        ("Other", ("Other", 2, "", None)),
    ],
)
def test_a_score_without_an_entry_of_its_own(
    name: str, facts: tuple[str, int, str, str | None]
) -> None:
    column = find_entry(name).column()
    assert (column.header, column.digits, column.unit, find_entry(name).better) == facts


def test_roles_follow_from_the_table() -> None:
    assert main_score("quality") == "BLEU"
    assert main_score("quality", "speech") == "ASR_BLEU"
    assert main_score("latency") == "StreamLAAL"
    assert main_score("latency", "sentences") == "LAAL"
    assert main_score("latency", "speech") == main_score("latency", "unreferenced") == "StartOffset"
    means = {entry.mean_of: entry.name for entry in SCORES if entry.mean_of}
    assert means == {"StreamLAAL": "StreamLAAL", "LAAL": "LongLAAL", "YAAL": "LongYAAL"}
    assert scores_of("events") == [
        "NormalizedErasure",
        "SegmentSeconds",
        "SegmentWords",
        "TranscriptWER",
    ]
