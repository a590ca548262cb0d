"""The comparison of recordings on results written by hand, and one small case run twice."""

import copy
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

STREAMED = {
    "talks": [
        {"talk": "tst-000", "text": "Das Haus", "words": ["Das", "Haus"], "delays": [0.96, 1.92]}
    ],
    "scores": [{"BLEU": 93.0, "chrF": 96.9}],
}
TRAINING_CASES = {
    "losses": [
        {"stage": "sentences", "step": 0, "values": {"loss": "7.25", "accuracy": "0.1"}},
        {"stage": "long", "step": 1, "values": {"loss": "6.5", "accuracy": "0.2"}},
    ]
}


def changed(result: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    """A copy of ``result`` with another value at ``path``."""
    result = copy.deepcopy(result)
    node: Any = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = to
    return result


def test_equal_results_are_equal(script: ModuleType) -> None:
    for result in (STREAMED, TRAINING_CASES):
        assert script.compare_case("case", result, copy.deepcopy(result)).equal


@pytest.mark.parametrize(
    ("path", "value", "difference"),
    [
        (("talks", 0, "words", 1), "Hund", "word 1: 'Haus' at 1.92 s before, 'Hund' at 1.92 s now"),
        (("talks", 0, "delays", 0), 0.9600000000000001, "'Das' at 0.9600000000000001 s now"),
        (("talks", 0, "text"), "Das  Haus", "tst-000: text differs"),
        (("talks", 0, "samples"), "ab12", "tst-000: samples differs"),
        (("talks",), [], "1 talks before, 0 now"),
        (("scores", 0, "BLEU"), 92.9, "BLEU: 93.0 before, 92.9 now"),
    ],
)
def test_a_changed_stream_is_described(
    script: ModuleType, path: tuple[Any, ...], value: Any, difference: str
) -> None:
    outcome = script.compare_case("case", STREAMED, changed(STREAMED, *path, to=value))
    assert not outcome.equal
    assert difference in outcome.difference


def test_a_word_more_is_described(script: ModuleType) -> None:
    longer = changed(STREAMED, "talks", 0, "words", to=["Das", "Haus", "da"])
    longer["talks"][0]["delays"] = [0.96, 1.92, 1.92]
    outcome = script.compare_case("case", STREAMED, longer)
    assert outcome.difference == "tst-000, word 2: none before, 'da' at 1.92 s now"


def test_a_changed_loss_is_described(script: ModuleType) -> None:
    other = changed(TRAINING_CASES, "losses", 1, "values", "loss", to="6.500000000000001")
    outcome = script.compare_case("case", TRAINING_CASES, other)
    assert not outcome.equal
    assert outcome.difference == "stage long, step 1: loss 6.5 before, 6.500000000000001 now"
    shorter = {"losses": TRAINING_CASES["losses"][:1]}
    assert not script.compare_case("case", TRAINING_CASES, shorter).equal


def test_renamed_stages_and_losses_are_equal_with_a_remark(script: ModuleType) -> None:
    renamed = changed(TRAINING_CASES, "losses", 0, "stage", to="single_sentences")
    renamed["losses"][1]["values"] = {"cross_entropy": "6.5", "accuracy": "0.2"}
    outcome = script.compare_case("case", TRAINING_CASES, renamed)
    assert outcome.equal
    assert outcome.difference == "renamed stages or losses"


def test_failed_and_missing_cases_differ(script: ModuleType) -> None:
    failed = script.compare_case("case", STREAMED, {"error": "No such key"})
    assert (failed.equal, failed.difference) == (False, "fails now: No such key")
    assert not script.compare_case("case", {"error": "same"}, {"error": "same"}).equal
    assert not script.compare_case("case", None, TRAINING_CASES).equal


def test_only_selects_by_part_and_by_glob(script: ModuleType) -> None:
    found = script.cases(script.ROOT)
    names = [case.name for case in script.selected(found, ["train/off", "stream/*_zh"])]
    assert names == ["stream/infinisst_zh", "train/offline_minitalks"]
    assert script.selected(found, []) == found


def test_every_system_with_a_knob_runs_at_one_value(script: ModuleType) -> None:
    for case in script.cases(script.ROOT):
        if case.script == "evaluate":
            assert any(
                "system.knob.values" in override for override in script.streaming_overrides(case)
            )


def test_clips_are_few_wherever_they_are_configured(script: ModuleType) -> None:
    clips = {"_target_": "zoo.data.clips.ClipConfig", "count": 5000}
    stages = {"long": {"sampling": clips}, "short": {"sampling": "${training.objectives.a}"}}
    training = {"curriculum": {"stages": stages}, "objectives": {"a": {"sampling": clips}}}
    overrides = script.training_overrides({"training": training})
    assert [override for override in overrides if ".count=" in override] == [
        f"training.curriculum.stages.long.sampling.count={script.CLIPS}",
        f"training.objectives.a.sampling.count={script.CLIPS}",
    ]


def test_losses_are_read_per_step(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(
        "step,train/a/loss,train/learning_rate,train/b/loss,dev/BLEU\n"
        "0,7.25,0.001,,\n1,,0.002,6.5,\n1,,,,93.0\n"
    )
    assert script.losses(path) == [
        {"stage": "a", "step": 0, "values": {"loss": "7.25", "learning_rate": "0.001"}},
        {"stage": "b", "step": 1, "values": {"learning_rate": "0.002", "loss": "6.5"}},
    ]


def test_a_recorded_case_checks_equal_and_a_changed_recording_does_not(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "EVALUATION_TALKS", 1)
    recording = tmp_path / "recording.json"
    only = ["--only", "stream/infinisst_zh"]
    assert exit_code(script, ["--record", str(recording), *only], monkeypatch) == 0
    results = script.recorded(recording)
    assert len(results["stream/infinisst_zh"]["talks"][0]["words"]) > 100
    monkeypatch.setattr(script, "record", lambda *_: results)  # it takes seconds
    assert exit_code(script, ["--check", str(recording), *only], monkeypatch) == 0
    content = json.loads(recording.read_text())
    content["cases"]["stream/infinisst_zh"]["talks"][0]["delays"][-1] += 0.001
    recording.write_text(json.dumps(content))
    assert exit_code(script, ["--check", str(recording), *only], monkeypatch) == 1


def exit_code(script: ModuleType, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Exit code of the script's main on a command line."""
    monkeypatch.setattr(sys, "argv", ["same_words.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        script.main()
    return int(stopped.value.code or 0)
