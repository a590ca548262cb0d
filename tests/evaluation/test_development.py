"""Development talks in the run of test talks: rows of both, and the regime that they set."""

import json
import re
from pathlib import Path

import pytest

from tests.evaluation.conftest import SEGMENTS, Evaluate
from zoo.base.audio import files as audio

QUICK = ("evaluation.upper_bound=false", "evaluation.oracle_k=[]", "evaluation.knob_values=[1,2]")


@pytest.fixture
def sets(corpus: Path, tmp_path: Path) -> list[str]:
    """The overrides of two sets in the campaign's form: recordings, a list, texts."""
    folder = tmp_path / "campaign"
    recordings = corpus / "en-de" / "data" / "tst-COMMON" / "wav"
    for split, name in (("dev", "ted_1"), ("tst", "ted_2")):
        (folder / split).mkdir(parents=True)
        audio.write(folder / split / f"{name}.wav", audio.load(recordings / f"{name}.wav"))
        items = [f"- {{duration: {d}, offset: {o}, wav: {name}.wav}}" for o, d, *_ in SEGMENTS]
        (folder / split / "list.yaml").write_text("\n".join(items) + "\n")
        (folder / split / "de.txt").write_text("\n".join(one[3] for one in SEGMENTS) + "\n")
    paths = {"segments": "list.yaml", "references": "de.txt"}
    given = [f'data.{key}="{folder}/{{split}}/{name}"' for key, name in paths.items()]
    return ["data=iwslt", *given, *QUICK]


def test_both_sets_are_streamed_and_ranked(evaluate: Evaluate, sets: list[str], here: Path) -> None:
    result = evaluate(*sets, "evaluation.development=dev", "hydra.run.dir=run")
    assert result.code == 0, result.err
    rows = json.loads((here / "run" / "results.json").read_text())
    named = [(row["knob"]["value"], row["split"]) for row in rows]
    assert named == [(1, "dev"), (1, "tst"), (2, "dev"), (2, "tst")]
    for development, test in (rows[:2], rows[2:]):
        # Noise in a random model may leave a row without LongYAAL, which then has no regime.
        regime = development["settings"].get("regime")
        if development["scores"]["LongYAAL"] is None:
            assert regime is None
        elif test["scores"]["LongYAAL"] is not None:
            assert test["settings"]["regime"] == regime
    talks = (here / "run" / "talks.jsonl").read_text()
    assert re.findall(r'"name": ?"(\w+)"', talks) == ["ted_2", "ted_1"]
    assert "iwslt dev, en-de" in result.out
    assert "iwslt tst, en-de" in result.out


def test_one_split_is_streamed_once(evaluate: Evaluate, sets: list[str], here: Path) -> None:
    given = ("evaluation.split=dev", "evaluation.development=dev", "hydra.run.dir=run")
    result = evaluate(*sets, *given)
    assert result.code == 0, result.err
    rows = json.loads((here / "run" / "results.json").read_text())
    assert [row["split"] for row in rows] == ["dev", "dev"]


def test_a_split_that_is_missing_or_the_same_is_refused(
    evaluate: Evaluate, sets: list[str], mustc: list[str], here: Path
) -> None:
    same = [item.replace("{split}", "tst") for item in sets]
    result = evaluate(*same, "evaluation.development=dev")
    assert result.code == 2
    assert "evaluation.split=tst and evaluation.development=dev both have the talk 'ted_2'" in (
        result.err
    )
    result = evaluate(*mustc, *QUICK, "evaluation.development=dev")
    assert result.code == 2
    assert "has no split 'dev'" in result.err
    assert list(here.iterdir()) == []
