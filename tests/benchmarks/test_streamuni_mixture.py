"""Every mixture is trained from the shared stage and scored; nothing is trained twice."""

from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from tests.fixtures.tiny_checkpoints import phi4_multimodal
from zoo.config import build, compose
from zoo.errors import ZooError

SIZES = [
    "--hearing-steps",
    "1",
    "--sentence-steps",
    "1",
    "--steps",
    "1",
    "--talks",
    "1",
    "--prefixes",
    "1",
]


def test_mixtures_are_shares_of_what_there_is(script: ModuleType) -> None:
    assert [sum(shares) for shares in script.MIXTURES.values() if shares] == [1.0] * 3
    assert [name for name, shares in script.MIXTURES.items() if shares is None] == ["vanilla"]


def test_each_training_starts_from_the_shared_one(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: dict[str, list[str]] = {}

    def noted(name: str, overrides: list[str]) -> float:
        given[name] = overrides
        return 1.0

    monkeypatch.setattr(script, "trained", noted)
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    assert list(script.training(script.arguments([*SIZES, "threads=1"]))) == [
        "shared",
        *list(script.MIXTURES)[1:],
    ]
    assert all("threads=1" in overrides for overrides in given.values())
    shared = f"backbone.name={tmp_path / 'shared' / 'export'}"
    assert [shared in overrides for overrides in given.values()] == [False, True, True, True]
    assert (
        "training.thoughts.mixture={non_streaming:0.5,streaming:0.0,partial:0.5}"
        in (given["partial_and_non_streaming"])
    )


def test_what_is_trained_is_not_trained_again(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    card = tmp_path / "done" / "export" / script.CARD
    card.parent.mkdir(parents=True)
    card.touch()
    assert script.trained("done", ["no_such_key=1"]) == 0
    with pytest.raises(ZooError, match="training of new failed"):
        script.trained("new", ["no_such_key=1"])


def row(system: str, k: int, bleu: float) -> dict[str, object]:
    return {
        "system": system,
        "knob": {"name": "k", "value": float(k)},
        "scores": {"BLEU": bleu, "StreamLAAL": 1.234},
    }


def test_all_scores_of_a_model_stand_in_its_line(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[int], tuple[str, ...]]] = []

    def rows(
        _: object, *, ks: list[int], talks: int, given: tuple[str, ...]
    ) -> list[dict[str, object]]:
        asked.append((ks, given))
        return [row(name, k, 10.0 * k) for name in script.MIXTURES for k in ks]

    monkeypatch.setattr(script, "streamed", rows)
    monkeypatch.setattr(script, "low_latency", lambda *_: {"prefix_WER": 5.0, "prefix_BLEU": 60.0})
    found = script.scores(script.arguments(["--k", "1,3,5"]))
    assert asked == [([1, 3, 5], script.SIMULST), ([3], ())]
    assert list(found) == list(script.MIXTURES)
    assert found["partial_and_non_streaming"]["SimulST k=5 BLEU"] == 50
    assert found["partial_and_non_streaming"]["StreamST k=3 StreamLAAL"] == 1.23
    console = Console(width=200, file=StringIO(), record=True)
    console.print(script.shown(found))
    columns = console.export_text().splitlines()[-1].split("  ")
    assert [column.strip() for column in columns if column.strip()] == [
        *(
            "partial and non streaming",
            "5.0",
            "60.0",
            "10.0 @ 1.23",
            "30.0 @ 1.23",
            "50.0 @ 1.23",
            "30.0 @ 1.23",
        )
    ]


def test_prefixes_of_sentences_are_heard(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    phi4_multimodal(tmp_path / "export")
    monkeypatch.setattr(script, "weights", lambda _: tmp_path / "export")
    options = script.arguments(["--prefixes", "40", "backbone.max_tokens=4"])
    assert (
        script.low_latency("vanilla", options)["prefix_WER"] > 50
    )  # random weights say other words
    batches = script.prefixes(build(compose("evaluate", ["system=streamuni"]).system), options)
    assert {len(batch) for batch in batches} == {4}
    assert {thought.kind for batch in batches for thought in batch} == {"partial"}
    lengths = [{round(thought.end - thought.start, 2) for thought in batch} for batch in batches]
    assert all(len(length) == 1 for length in lengths)
    assert len({min(length) for length in lengths}) > 5
    assert sum(bool(thought.transcript) for batch in batches for thought in batch) > 20


def test_a_knob_of_nothing_is_refused(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        script.arguments(["--k", "1,0"])
    assert left.value.code == 2
    assert "--k: must be a whole number of at least 1, not 0" in capsys.readouterr().err
