"""``resume=RUN`` has the overrides that the run folder records."""

from pathlib import Path

import pytest
import yaml

from zoo.base.errors import ZooError
from zoo.config.resumed import with_recorded


def run(folder: Path, *overrides: str) -> Path:
    folder.mkdir()
    (folder / "overrides.yaml").write_text(yaml.safe_dump(list(overrides)))
    return folder


def test_recorded_overrides_are_added_unless_their_key_is_typed(tmp_path: Path) -> None:
    folder = run(tmp_path / "a run", "seed=1", "policy=wait_k", "~compare.b", "resume=old")
    given = [f"resume='{folder}'", "seed=2", "++device=cpu"]
    typed = ["--config-dir", "conf", *given]
    found = with_recorded(typed, given)
    assert found == [*typed[:3], "policy=wait_k", "~compare.b", *typed[3:]]
    # a process that a job starts has all of them, and adds none
    assert with_recorded(found, found[2:]) == found


def test_without_a_record_nothing_is_added(tmp_path: Path) -> None:
    for value in (tmp_path, tmp_path / "nowhere", "null", "3", "[", ""):
        assert with_recorded([f"resume={value}"], [f"resume={value}"]) == [f"resume={value}"]
    assert with_recorded(["seed=1"], ["seed=1"]) == ["seed=1"]


@pytest.mark.parametrize(
    "line",
    [
        "trusted_packages=[mine]",
        "evaluation.comet_python=/tmp/python",
        "synthesizer.python=/tmp/program",
        "synthesizer={rate: 165, python: /tmp/program}",
        "xtts.python=/tmp/program",
        "evaluation={utmos_trusted: true}",
        "++callbacks.x={_target_: mine.Callback}",
        "compare={a: [\"system='simuleval_agent'\"]}",
        "compare={a: [\"system='realtime'\"]}",
        "system.name=${oc.env:KEY}",
    ],
)
def test_what_runs_code_must_be_typed_again(line: str, tmp_path: Path) -> None:
    given = [f"resume={run(tmp_path / 'run', line)}"]
    with pytest.raises(ZooError, match="add it to the command if you want it") as refusal:
        with_recorded(given, given)
    assert line in str(refusal.value)
    typed = [*given, line]
    assert with_recorded(typed, typed) == typed


@pytest.mark.parametrize("text", ["{a: 1}", "[1]", "[--multirun]", "[", "[hydra.run.dir=/tmp]"])
def test_a_damaged_record_is_one_sentence(text: str, tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    (folder / "overrides.yaml").write_text(text)
    with pytest.raises(ZooError, match=r"overrides\.yaml (is damaged|is no list|sets hydra)"):
        with_recorded([f"resume={folder}"], [f"resume={folder}"])
