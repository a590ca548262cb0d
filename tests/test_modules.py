"""Wrong arguments of the modules that are run by ``python -m``: one sentence and exit code 2."""

import ast
import runpy
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

from zoo.base.machine.hints import PREFIX
from zoo.metrics.comet import score

MODULES = {  # module and arguments: what the last line on stderr has
    "zoo.backbones.pretrained.share a encoder": "required: other",
    "zoo.backbones.pretrained.share a encoder b": "error: a/model.safetensors is missing",
    "zoo.extras.fbk_conformer.convert a.pt out": "required: --config",
    "zoo.extras.fbk_conformer.convert a.pt out --config c.yaml": "error: c.yaml is missing",
    "zoo.backbones.infinisst.convert a.pt out": "error: There is no file a.pt;",
    "zoo.backbones.lst.convert a.pt out": "error: There is no file a.pt;",
    "zoo.data.minitalks.corpus --split nope": "invalid choice: 'nope' (choose from 'tst',",
    "zoo.data.minitalks.corpus --talks 0": "error: A corpus needs at least 1 talk, not 0.",
    "zoo.evaluation.alignment_heads system=infinisst": "error: InfiniSST has no alignment heads;",
    "zoo.evaluation.alignment_heads system=replay": "error: Replay has no alignment heads; choose",
    "zoo.evaluation.synthesis system=null": "error: Unknown system 'null'; choose one of:",
    "zoo.evaluation.synthesis system=replay": "error: replay has no synthesizer; choose another",
    "zoo.evaluation.synthesis threads=[1]": "error: threads must be a whole number of at least 1,",
    "zoo keys trian": "error: Unknown command 'trian'; choose one of: evaluate, train, ",
    "zoo keys sed=1": "Did you mean seed?",
    "zoo.report.card . --results a": "error: a has no results.json; name the folder of an",
    "zoo.report.leaderboard a": "error: a has no results.json; name the folder of an evaluation.",
    "zoo.apps.prepare.entities a b": "required: --model",
    "zoo.apps.prepare.entities a b --model c": "error: There is no file a.",
    "zoo.apps.prepare.entities a b --model c --least 17": "least_answers from 1 to 16, not 17.",
    "zoo.apps.prepare.trajectories --examples -2": "examples of at least 0, not -2.",
    "zoo.apps.prepare.trajectories seed=-1": "error: seed must be a whole number of at least 0,",
    "zoo.apps.prepare.trajectories seed=abc": "error: seed must be a whole number of at least 0,",
    "zoo.apps.prepare.trajectories source_language=xx": "error: Unknown language 'xx'; choose one of",
    "zoo.apps.prepare.trajectories target_language=???": "error: target_language needs a value; ",
    "zoo.apps.prepare.trajectories target_language=[de]": "error: Unknown target_language ",
    "zoo.apps.prepare.trajectories target_language=${no}": "error: ${no} refers to the key 'no', ",
    "zoo.metrics.comet.score nope": "invalid choice: 'nope' (choose from 'check', 'score')",
    "zoo.report /nowhere": "error: /nowhere has no results.json; name the folder of an evaluation.",
    "zoo.report . --minutes nan": "error: zoo.report needs minutes of at least 0, not nan.",
    "zoo.apps.submit system=infinisst": "error: Name the new folder of the submission once: folder=",
    "zoo.apps.submit folder=. system=infnisst": "error: Unknown system 'infnisst'; choose one of:",
    "zoo.apps.submit folder=a/b": "error: folder=a/b cannot be made: there is no folder a.",
    "zoo.apps.submit folder=a system=replay": "error: 'replay' is no streaming system of the zoo, so no",
    "zoo.apps.submit folder=a system=simulu": "emits speech, and the track takes text;",
    "zoo.apps.submit folder=a experiment=demo": "error: A submission has one system; leave out compare",
    "zoo.apps.submit folder=a evaluation.split=tst": "error: evaluation.split=tst is no development set",
    "zoo.apps.submit folder=a data=iwslt": "error: data=iwslt needs data.segments, a YAML list of",
    "zoo.runs.wandb_report --nope": "unrecognized arguments: --nope",
}
ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
OWN_SCRIPTS = {"zoo.apps.train", "zoo.apps.evaluate"}  # of train.py and evaluate.py
CHILDREN = {  # modules that the zoo itself starts, in processes or environments of their own
    "zoo.base.espeak.process",
    "zoo.apps.live.decode_process",
    "zoo.apps.live.scoring",
    "zoo.metrics.comet.score",
    "zoo.extras.xtts.xtts_process",
}
MAINTAINERS = {"zoo.config.generate"}  # writes a file of the repository


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


def started() -> dict[str, str]:
    """The name of the only call in each block ``if __name__ == "__main__"``, by module."""
    found = {}
    for path in sorted((ROOT / "zoo").rglob("*.py")):
        last = ast.parse(path.read_text()).body[-1:]
        if last and isinstance(last[0], ast.If) and "__main__" in ast.unparse(last[0].test):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name] = ast.unparse(last[0].body).removesuffix("()")
    return found


def test_each_module_that_is_run_has_a_console_command() -> None:
    modules = started()
    assert modules.keys() >= CHILDREN
    functions = {
        getattr(import_module(module), call)
        for module, call in modules.items()
        if module not in CHILDREN | MAINTAINERS
    }
    names = {f"{function.__module__}.{function.__qualname__}" for function in functions}
    scripts = [target.replace(":", ".") for target in SCRIPTS.values()]
    assert sorted(scripts) == sorted(names | OWN_SCRIPTS)
    assert all(name.startswith(PREFIX) for name in SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    function = resolve_name(SCRIPTS[name])
    with pytest.raises(SystemExit) as left:
        sys.exit(function())  # as an installed script does
    assert left.value.code in (0, None)
    printed = capsys.readouterr()
    assert printed.out.startswith(f"usage: {name} ")
    assert printed.err == ""


@pytest.mark.parametrize("place", ["nowhere/a.json", "."])
def test_a_report_of_runs_that_cannot_be_written(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb_workspaces", reason="the extra wandb-report is not installed")
    monkeypatch.chdir(tmp_path)
    assert run("zoo.runs.wandb_report", "--json", place, monkeypatch=monkeypatch) == 2
    expected = f"error: --json is {place}; name a file in an existing folder.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"folder": "a"}', b"[" * 100_000])
def test_texts_for_comet_that_are_no_texts(content: bytes) -> None:
    with pytest.raises(score.BadModel, match=r"^Line 1 of standard input must be a JSON object"):
        score.read_lines(content)
