"""Deleted units of streams, counted by hand."""

from pathlib import Path

import pytest

from zoo.base.languages import language
from zoo.base.types import Instance, StreamEvent, UnitKind
from zoo.formats.logs import read_log
from zoo.metrics.revisions import normalized_erasure


def stream(text: str, *deleted: str, unit: UnitKind = "word") -> Instance:
    units = tuple(text.split()) if unit == "word" else tuple(text)
    events = tuple(StreamEvent("revision", 1.0, text=one) for one in deleted)
    other = StreamEvent("cut", 1.0, text="a text that was not deleted")
    events = (other, *events)
    return Instance(0, "talk", 2.0, text, units, (), (), unit=unit, events=events)


def test_deleted_words_of_all_streams_over_words_of_the_output() -> None:
    score = normalized_erasure([stream("a b c", "x y", "c"), stream("d")])
    assert score is not None
    assert score.value == pytest.approx(3 / 4)
    characters = normalized_erasure([stream("你好", "吗 么", unit="char")])
    assert characters is not None
    assert characters.value == pytest.approx(1.0)


def test_streams_without_revisions_have_no_score_and_without_output_no_value() -> None:
    assert normalized_erasure([stream("a b")]) is None
    score = normalized_erasure([stream("", "a")])
    assert score is not None
    assert score.value is None


@pytest.mark.parametrize(
    ("code", "expected"),
    [("de", 0.25316455696202533), ("zh", 0.2896551724137931), ("ja", 0.23728813559322035)],
)
def test_the_value_of_a_log_is_that_of_simulstream(code: str, expected: float) -> None:
    """``simulstream.metrics.stats`` at commit 86e0f1e prints the value of words or characters."""
    log = Path(__file__).parent / "parity" / code / "talks" / "simulstream.jsonl"
    streams = read_log(log, language=language(code), format="simulstream")
    score = normalized_erasure(streams)
    assert score is not None
    assert score.value == pytest.approx(expected, abs=1e-15)
    # what was deleted was written before
    events = [event for one in streams for event in one.events if event.kind == "revision"]
    assert all(chunk < event.chunk for event in events for _, chunk in event.pieces)
    assert all(len(one.text) == sum(count for count, _ in one.pieces) for one in events)
