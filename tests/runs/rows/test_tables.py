"""Finished runs as tables of pandas."""

import sys
from pathlib import Path

import pytest

import zoo
from zoo.base.errors import ZooError
from zoo.runs.rows.row import KnobValue, Row, write_rows
from zoo.runs.rows.segments import ScoredSegment, write_segments


def evaluation(folder: Path, bleu: float) -> Path:
    log = "instances/00-a-m2/instances.log"
    (folder / log).parent.mkdir(parents=True)
    row = Row(
        "a",
        KnobValue("m", 2),
        data="minitalks",
        split="tst",
        source_language="en",
        target_language="de",
        scores={"StreamLAAL": 1.5, "BLEU": bleu, "TER": None},
        signatures={},
        instances=log,
        flags=("late",),
    )
    write_rows([row], folder / "results.json")
    segment = ScoredSegment(
        talk="t",
        segment=0,
        offset=0.5,
        duration=2.0,
        source="one",
        reference="eins",
        hypothesis="ein",
        scores={"chrF": 40.0, "StreamLAAL": 1.5},
    )
    write_segments((folder / log).with_name("segments.jsonl"), [segment])
    return folder


def test_runs_become_tables(tmp_path: Path) -> None:
    one, two = evaluation(tmp_path / "one", 50.0), evaluation(tmp_path / "two", 60.0)
    results = zoo.read_results(one, str(two))
    rows = results.rows
    assert list(rows["BLEU"]) == [50.0, 60.0]
    assert list(rows["value"]) == [2, 2]
    assert list(rows["run"]) == [str(one), str(two)]
    assert list(rows.columns)[-4:] == ["BLEU", "StreamLAAL", "TER", "flags"]
    assert list(results.segments["hypothesis"]) == ["ein", "ein"]
    assert list(results.segments["StreamLAAL"]) == [1.5, 1.5]
    assert repr(results) == "Results(2 rows: a m=2, a m=2)"
    assert list(zoo.read_results(tmp_path).rows["BLEU"]) == [50.0, 60.0]


def test_overrides_in_which_the_jobs_of_a_sweep_differ_are_columns(tmp_path: Path) -> None:
    for job, own in enumerate(("history=punctuation", "history=recent_words")):
        folder = evaluation(tmp_path / str(job), 50.0 + job)
        shared = "- system=a\n- evaluation.talks=2\n- logger=csv\n- evaluation.baseline=a\n"
        odd = "- 'x.y=a: [b'\n" if job else ""
        (folder / "overrides.yaml").write_text(f"{shared}- {own}\n- policy.frames={4 + job}\n{odd}")
    rows = zoo.read_results(tmp_path).rows
    assert list(rows["history"]) == ["punctuation", "recent_words"]
    assert list(rows["policy.frames"]) == [4, 5]
    assert rows["x.y"][1] == "a: [b"
    assert {"evaluation.talks", "logger", "evaluation.baseline"}.isdisjoint(rows.columns)
    assert rows["system"][0] == "a history=punctuation policy.frames=4"


def test_a_training_becomes_a_line_per_step(tmp_path: Path) -> None:
    """A resumed training repeats steps; values of one step come in several calls."""
    lines = ("step,train/loss,dev/BLEU", "1,3.0,", "2,2.5,", "2,2.0,", "2,,10.5", ",,99")
    (tmp_path / "metrics.csv").write_text("\n".join(lines) + "\n")
    training = zoo.read_results(tmp_path).training
    assert list(training["step"]) == [1, 2]
    assert list(training["train/loss"]) == [3.0, 2.0]
    assert training["dev/BLEU"].iloc[1] == 10.5


def test_development_evaluations_are_read_where_they_are_named(tmp_path: Path) -> None:
    """A table of all evaluations below a folder has no rows of a training's checkpoints."""
    (tmp_path / "metrics.csv").write_text("step,train/loss\n1,3.0\n")
    evaluation(tmp_path / "development" / "step000100", 20.0)
    results = zoo.read_results(tmp_path)
    assert (len(results.rows), len(results.training)) == (0, 1)
    assert list(zoo.read_results(tmp_path / "development").rows["BLEU"]) == [20.0]


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZooError, match="There is no run folder"):
        zoo.read_results(tmp_path / "missing")
    with pytest.raises(ZooError, match=r"has no results\.json"):
        zoo.read_results(tmp_path)
    with pytest.raises(ZooError, match="at least one run folder"):
        zoo.read_results()
    results = zoo.read_results(evaluation(tmp_path / "run", 50.0))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ZooError, match=r"pip install 'simulzoo\[notebook\]'"):
        results.rows  # noqa: B018
