"""Rows of SimulU's cascades that need XTTS-v2, with and without it."""

import json
from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from tests.fixtures.xtts_environment import environment, weights
from zoo.config import build, compose
from zoo.evaluation import comparison, left_out
from zoo.extras.xtts.xtts import XTTS

ROWS = ("streamatt_xtts", "local_agreement_xtts", "local_agreement_pauses_xtts")
NAMED = ("xtts.name=folder", "xtts.reference=voice.wav")
PUBLISHED = "size=published"
GET = "set xtts.name=FOLDER and xtts.reference=RECORDING (docs/simulu.md)."


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], ""),
        ([PUBLISHED], GET),
        ([PUBLISHED, "target_language=ro", "xtts.python=python"], GET),
        ([PUBLISHED, "target_language=ro", *NAMED], "XTTS-v2 does not support Romanian."),
        (["target_language=ro", *NAMED], "XTTS-v2 does not support Romanian."),
        ([PUBLISHED, *NAMED], None),
        ([PUBLISHED, NAMED[0]], None),
        ([PUBLISHED, NAMED[1], "target_language=nl"], None),
        (list(NAMED), None),
    ],
)
def test_rows_without_xtts_are_left_out_and_named(
    given: list[str], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["experiment=simulu_cascades", *given]
    for module in (comparison, left_out):
        monkeypatch.setattr(module, "overrides", lambda: given)
    cfg = compose("evaluate", given)
    names = [str(one.system.name) for one in comparison.system_configurations(cfg)]
    others = [name for name in cfg.compare if name not in ROWS]
    assert others
    assert names == (others if reason is not None else list(cfg.compare))
    found = left_out.left_out(cfg)
    assert found.names == (() if reason is None else ROWS)
    assert found.notes == ((f"Rows {', '.join(ROWS)} are left out: {reason}",) if reason else ())


def test_a_row_has_the_parts_that_the_experiment_names(tmp_path: Path) -> None:
    name, reference = weights(tmp_path / "weights")
    python = environment(tmp_path / "environment")
    given = ["experiment=simulu_cascades", f"xtts.name={name}", f"xtts.reference={reference}"]
    entries = compose("evaluate", [*given, f"xtts.python={python}"]).compare
    for row in ROWS:
        speaker = build(compose("evaluate", [*given, *entries[row]]).system).synthesizer
        assert isinstance(speaker, XTTS)
        assert (speaker.python, speaker.name) == (str(python), str(name))
        assert speaker.reference == str(reference)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["xtts.name={name}"], "synthesizer.reference must be a recording"),
        (["xtts.reference={voice}"], "synthesizer.name must be a folder with config.json,"),
        (
            ["xtts.name={name}", "xtts.reference={voice}", "xtts.python=nowhere"],
            "there is no file nowhere: run `make xtts`",
        ),
    ],
)
def test_a_named_part_without_the_others_is_refused_before_files_are_written(
    given: list[str], message: str, evaluate: Evaluate, here: Path, tmp_path: Path
) -> None:
    name, voice = weights(tmp_path / "weights")
    named = [item.format(name=name, voice=voice) for item in given]
    refused = evaluate("experiment=simulu_cascades", *named, "logger=csv", tiny=False)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err
    assert list(here.iterdir()) == []


def test_rows_of_another_choice_of_synthesizer_are_left_out(
    evaluate: Evaluate, mustc: list[str], here: Path, tmp_path: Path
) -> None:
    """The parts that a user names are those of the synthesizer, and not of one name."""
    files = {
        "synthesizer/voice.yaml": "_target_: zoo.extras.xtts.xtts.XTTS\n",
        "experiment/mine.yaml": "# @package _global_\n"
        "compare: {text: [], spoken: [synthesizer=voice]}\nvoice: {name: null, reference: null}\n",
    }
    for name, content in files.items():
        (tmp_path / "conf" / name).parent.mkdir(parents=True)
        (tmp_path / "conf" / name).write_text(content)
    own = f"hydra.searchpath=[file://{tmp_path / 'conf'}]"
    done = evaluate(own, "experiment=mine", *mustc)
    assert done.code == 0, done.err
    (results,) = here.rglob("results.json")
    assert {row["system"] for row in json.loads(results.read_text())} == {"text", "text offline"}
