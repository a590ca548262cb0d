"""Wrong arguments of the modules that are run by ``python -m``: one sentence and exit code 2."""

import runpy
import sys
from pathlib import Path

import pytest

from zoo.metrics.comet import score

MODULES = {  # module and arguments: what the last line on stderr has
    "zoo.backbones.common.pretrained.weights a encoder": "required: other",
    "zoo.backbones.common.pretrained.weights a encoder b": "error: a/model.safetensors is damaged",
    "zoo.backbones.fbk_conformer.convert a.pt out": "required: --config",
    "zoo.backbones.fbk_conformer.convert a.pt out --config c.yaml": "error: c.yaml is missing",
    "zoo.backbones.infinisst.convert a.pt out": "error: There is no file a.pt;",
    "zoo.backbones.lst.convert a.pt out": "error: There is no file a.pt;",
    "zoo.data.minitalks.corpus --split nope": "invalid choice: 'nope' (choose from 'tst',",
    "zoo.data.minitalks.corpus --talks 0": "error: A corpus needs at least 1 talk, not 0.",
    "zoo.evaluation.alignment_heads system=infinisst": "error: InfiniSST has no alignment heads;",
    "zoo.evaluation.alignment_heads system=replay": "error: Replay has no alignment heads; choose",
    "zoo.evaluation.synthesis system=null": "error: Unknown system 'null'; choose one of:",
    "zoo.evaluation.synthesis system=replay": "error: replay has no synthesizer; choose another",
    "zoo.evaluation.synthesis threads=[1]": "error: threads must be a whole number of at least 1,",
    "zoo.prepare.trajectories --examples -2": "examples of at least 0, not -2.",
    "zoo.prepare.trajectories seed=-1": "error: seed must be a whole number of at least 0,",
    "zoo.prepare.trajectories seed=abc": "error: seed must be a whole number of at least 0,",
    "zoo.prepare.trajectories source_language=xx": "error: Unknown language 'xx'; choose one of",
    "zoo.prepare.trajectories target_language=???": "error: Missing mandatory value: ",
    "zoo.prepare.trajectories target_language=[de]": "error: Unknown target_language ",
    "zoo.prepare.trajectories target_language=${no}": "error: Interpolation key 'no' not found",
    "zoo.metrics.comet.score nope": "invalid choice: 'nope' (choose from 'check', 'score')",
    "zoo.report /nowhere": "error: /nowhere has no results.json; name the folder of an evaluation.",
    "zoo.report . --minutes nan": "error: zoo.report needs minutes of at least 0, not nan.",
    "zoo.tracking.wandb_report --nope": "unrecognized arguments: --nope",
}
HELP = sorted({given.split(" ")[0] for given in MODULES})


def run(module: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """Run a module as ``python -m`` does and return its exit code."""
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    if not hasattr(sys.modules.get(module), "__path__"):  # a package keeps its modules
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module(module, run_name="__main__")
    return left.value.code


@pytest.mark.parametrize("given", MODULES)
def test_wrong_arguments(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*given.split(" "), monkeypatch=monkeypatch) == 2
    printed = capsys.readouterr()
    assert MODULES[given] in printed.err.splitlines()[-1]
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", HELP)
def test_help(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(module, "--help", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.startswith("usage: ")


@pytest.mark.parametrize("place", ["nowhere/a.json", "."])
def test_a_report_of_runs_that_cannot_be_written(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb_workspaces", reason="the extra wandb-report is not installed")
    monkeypatch.chdir(tmp_path)
    assert run("zoo.tracking.wandb_report", "--json", place, monkeypatch=monkeypatch) == 2
    expected = f"error: --json is {place}; name a file in an existing folder.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"folder": "a"}', b"[" * 100_000])
def test_texts_for_comet_that_are_no_texts(content: bytes) -> None:
    with pytest.raises(score.BadModel, match=r"^Line 1 of standard input must be a JSON object"):
        score.read_lines(content)
