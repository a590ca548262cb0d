"""The committed logs are those that ``make_logs.py`` writes, in the formats of other tools."""

import json

import pytest

from tests.extras.interop.score_with_tools import TOKENIZERS, differences
from tests.metrics.parity.make_logs import FOLDER, LANGUAGES, files


@pytest.mark.parametrize("target", LANGUAGES)
def test_logs_are_those_of_the_texts(target: str) -> None:
    expected = files(target)
    written = {
        path.relative_to(FOLDER / target).as_posix(): path.read_text(encoding="utf-8")
        for path in (FOLDER / target).rglob("*")
        if path.is_file()
    }
    assert written == expected


def test_every_log_has_scores_of_every_tool_that_reads_it() -> None:
    numbers = json.loads((FOLDER / "numbers.json").read_text(encoding="utf-8"))
    logs = {
        "simuleval": ("sentences/instances.log", "talks/instances.log"),
        "omnisteval": ("sentences/instances.log", "talks/instances.log", "talks/simulstream.jsonl"),
        "simulstream": ("talks/simulstream.jsonl",),
    }
    assert tuple(TOKENIZERS) == LANGUAGES
    for tool, names in logs.items():
        expected = {f"{target}/{name}" for target in LANGUAGES for name in names}
        assert set(numbers[tool]["scores"]) == expected
    scores = [one for tool in numbers.values() for one in tool["scores"].values()]
    assert sum(map(len, scores)) == 210


def test_differences_are_named() -> None:
    old = {"a": {"AL": 1.0, "AP": 2.0}, "b": {"AL": 1.0}}
    assert differences(old, old) == []
    assert differences(old, {"a": {"AL": 1.0, "AP": 2.001}, "c": {"AL": 1.0}}) == [
        "a: AP is 2.001, not 2.0",
        "b: AL is nan, not 1.0",
        "c: AL is 1.0, not nan",
    ]
