"""Intervals and tests of finished rows: in an evaluation, and of joined runs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.conftest import Evaluate
from zoo.apps.report import main
from zoo.base.errors import ZooError
from zoo.evaluation.significance import with_significance
from zoo.metrics.significance import Resampling
from zoo.runs.rows.row import KnobValue, Row, read_rows, write_rows

REFERENCES = [f"satz nummer {number} ist hier zu ende" for number in range(12)]
QUICK = Resampling(tests=("bootstrap", "randomisation"), resamples=200, trials=400)


def row(folder: Path, system: str, m: float | None = None, kind: str = "system") -> Row:
    return Row(
        system,
        None if m is None else KnobValue("m", m),
        data="two",
        split="tst",
        source_language="en",
        target_language="de",
        scores={"BLEU": 50.0, "chrF": 60.0, "StreamLAAL": 1.0, "StreamLAAL_CA": None},
        signatures={},
        instances=f"{folder}/{system}/instances.log",
        kind=kind,  # type: ignore[arg-type]
    )


def write(folder: Path, system: str, texts: list[str], *, late: float, first: str = "") -> None:
    """Write the segments of a row; its latency grows with the number of the segment."""
    (folder / system).mkdir(parents=True)
    records = [
        {
            "talk": "t",
            "segment": number,
            "offset": 0.0,
            "duration": 1.0,
            "source": "",
            "reference": first or reference if number == 0 else reference,
            "hypothesis": text,
            "scores": {"StreamLAAL": late + number / 10, "LAAL": None},
        }
        for number, (reference, text) in enumerate(zip(REFERENCES, texts, strict=True))
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / system / "segments.jsonl").write_text(lines)


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """A good row, a bad and late one, one equal to the first one, an oracle and an offline row."""
    bad = [" ".join(text.split()[::-1]) for text in REFERENCES]
    noisy = [text if number % 3 else text[:-9] for number, text in enumerate(REFERENCES)]
    write(tmp_path, "good", noisy, late=1.0)
    write(tmp_path, "bad", bad, late=2.0)
    write(tmp_path, "same", noisy, late=1.0)
    write(tmp_path, "oracle", REFERENCES, late=0.5)
    folder = Path()
    return [
        row(folder, "oracle", 3, kind="oracle"),
        row(folder, "good", 2),
        row(folder, "bad", 2),
        row(folder, "same"),
        row(folder, "good offline", kind="ceiling"),
    ]


def test_rows_are_compared_with_the_first_system(tmp_path: Path, rows: list[Row]) -> None:
    oracle, good, bad, same, offline = with_significance(rows, tmp_path, QUICK)
    assert good.settings.baseline == "good m=2"
    assert good.p_values == {}
    for test in ("bootstrap", "randomisation"):
        assert set(bad.p_values[test]) == {"BLEU", "chrF", "StreamLAAL"}
        assert max(bad.p_values[test].values()) < 0.05
        assert set(same.p_values[test].values()) == {1.0}
    low, high = good.intervals["StreamLAAL"]
    assert low < 1.0 + 0.55 < high
    assert same.intervals == good.intervals
    assert set(oracle.intervals) == {"BLEU", "chrF", "StreamLAAL"}
    assert offline == rows[4]
    assert with_significance(rows, tmp_path, QUICK)[2] == bad

    write_rows([good, bad], tmp_path / "results.json")
    assert read_rows(tmp_path / "results.json") == [good, bad]


@pytest.mark.parametrize("baseline", ["bad m=2", "bad"])
def test_the_baseline_has_a_name(tmp_path: Path, rows: list[Row], baseline: str) -> None:
    found = with_significance(rows, tmp_path, QUICK, baseline=baseline)
    assert [bool(one.p_values) for one in found] == [True, True, False, True, False]
    with pytest.raises(ZooError, match="Unknown baseline ''; choose one of: oracle, good, bad"):
        with_significance(rows, tmp_path, QUICK, baseline="")
    message = r"Unknown baseline 'm=2'; choose one of: oracle, good, bad, same\."
    with pytest.raises(ZooError, match=message):
        with_significance(rows, tmp_path, QUICK, baseline="m=2")


def test_rows_that_cannot_be_compared_are_refused(tmp_path: Path, rows: list[Row]) -> None:
    write(tmp_path, "other", REFERENCES, late=1.0, first="another reference")
    other = replace(rows[1], system="other", instances="other/instances.log")
    message = "'good m=2' and 'other m=2' have different references of two tst, en-de"
    with pytest.raises(ZooError, match=message):
        with_significance([*rows, other], tmp_path, QUICK)
    another_test_set = replace(other, split="dev")
    assert with_significance([*rows, another_test_set], tmp_path, QUICK)[-1].intervals

    (tmp_path / "other" / "segments.jsonl").write_text("[]\n")
    with pytest.raises(ZooError, match="is damaged"):
        with_significance([other], tmp_path, QUICK)
    (tmp_path / "other" / "segments.jsonl").unlink()
    with pytest.raises(ZooError, match=r"is missing; a test of 'other m=2' needs it"):
        with_significance([other], tmp_path, QUICK)


def test_joined_runs_are_tested(
    tmp_path: Path, rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, one in (("a", rows[1]), ("b", rows[2])):
        shutil.copytree((tmp_path / one.instances).parent, (tmp_path / name / one.instances).parent)
        write_rows([one], tmp_path / name / "results.json")
    runs = [str(tmp_path / "a"), str(tmp_path / "b")]

    options = ["--significance", "bootstrap", "--resamples", "200", "--baseline", "bad"]
    main([*runs, "--output", str(tmp_path / "report"), *options])
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith(" good")]
    assert "50.0 ±" in line
    assert "* " in line
    assert "± 95 % interval (200 resamples of the segments)" in printed
    assert "* p < 0.05 against bad m=2 (bootstrap)" in printed
    good, bad = read_rows(tmp_path / "report" / "results.json")
    assert (good.p_values.keys(), bad.p_values) == ({"bootstrap"}, {})

    main([str(tmp_path / "report"), "--output", str(tmp_path / "again")])
    capsys.readouterr()
    again = read_rows(tmp_path / "again" / "results.json")
    assert [one.intervals for one in again] == [good.intervals, bad.intervals]
    assert [one.p_values for one in again] == [{}, {}], "the baseline may be of another run"

    for wrong, message in (
        (["--baseline", "bad"], "--baseline needs a test"),
        (["--significance", "t"], "Unknown test of significance 't'"),
    ):
        with pytest.raises(SystemExit):
            main([*runs, "--output", str(tmp_path / "wrong"), *wrong])
        assert message in capsys.readouterr().err


def record(number: int, words: int) -> dict[str, Any]:
    text = " ".join(REFERENCES[number].split()[:words])
    delays = [1000.0 * place for place in range(1, words + 1)]
    return {
        "index": number,
        "prediction": text,
        "delays": delays,
        "elapsed": delays,
        "source": [f"talk{number}.wav"],
        "source_length": 8000.0,
        "reference": REFERENCES[number],
    }


def test_an_evaluation_adds_intervals_and_tests(evaluate: Evaluate, here: Path) -> None:
    for name, words in (("one", 7), ("two", 5)):
        lines = [json.dumps(record(number, words)) + "\n" for number in range(6)]
        (here / f"{name}.log").write_text("".join(lines))
    entries = [f"- {{wav: talk{n}.wav, offset: 0, duration: 8}}\n" for n in range(6)]
    (here / "segments.yaml").write_text("".join(entries))
    (here / "references.txt").write_text("\n".join(REFERENCES[:6]))
    replay = '"system=replay"'
    compare = ",".join(f'{name}: [{replay}, "system.log={name}.log"]' for name in ("one", "two"))
    options = (
        f"compare={{{compare}}}",
        "data=recorded",
        "data.segments=segments.yaml",
        "data.references=references.txt",
        "logger=csv",
        "evaluation.significance=[bootstrap,randomisation]",
        "evaluation.resamples=100",
        "evaluation.trials=200",
    )
    done = evaluate(*options, "hydra.run.dir=run", tiny=False)
    assert done.code == 0, done.err
    one, two = read_rows(here / "run" / "results.json")
    assert {"BLEU", "chrF", "StreamLAAL", "LongYAAL"} <= set(one.intervals)
    assert (one.label, one.p_values) == ("one", {})
    assert two.p_values.keys() == {"bootstrap", "randomisation"}
    assert "against one (bootstrap and randomisation)" in done.out

    wrong = evaluate(*options, "evaluation.baseline=three", tiny=False)
    assert wrong.code == 2
    assert "Unknown baseline 'three'; choose one of: one, two" in wrong.err
    untested = evaluate(
        *options, "evaluation.baseline=one", "evaluation.significance=[]", tiny=False
    )
    assert untested.code == 2
    assert "evaluation.baseline needs a test" in untested.err
