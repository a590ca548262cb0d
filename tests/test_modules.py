"""The commands of ``python -m zoo``; wrong arguments: one sentence and exit code 2."""

import ast
import runpy
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures import processes
from zoo.__main__ import COMMANDS, main
from zoo.metrics.comet import score

WRONG = {  # command and arguments: what the last line on stderr has
    "share-weights a encoder": "required: other",
    "share-weights a encoder b": "error: a/model.safetensors is missing",
    "convert-fbk-conformer a.pt out": "required: --config",
    "convert-fbk-conformer a.pt out --config c.yaml": "error: c.yaml is missing",
    "convert-infinisst a.pt out": "error: There is no file a.pt;",
    "convert-lst a.pt out": "error: There is no file a.pt;",
    "minitalks --split nope": "invalid choice: 'nope' (choose from 'tst',",
    "minitalks --talks 0": "error: A corpus needs at least 1 talk, not 0.",
    "alignment-heads system=infinisst": "error: InfiniSST has no alignment heads;",
    "alignment-heads system=replay": "error: Replay has no alignment heads; choose",
    "synthesis system=null": "error: Unknown system 'null'; choose one of:",
    "synthesis system=replay": "error: replay has no synthesizer; choose another",
    "synthesis threads=[1]": "error: threads must be a whole number of at least 1,",
    "keys trian": "error: Unknown command 'trian'; choose one of: evaluate, train, ",
    "keys sed=1": "Did you mean seed?",
    "card . --results a": "error: a has no results.json; name the folder of an",
    "leaderboard a": "error: a has no results.json; name the folder of an evaluation.",
    "entities a b": "required: --model",
    "entities a b --model c": "error: There is no file a.",
    "entities a b --model c --least 17": "least_answers from 1 to 16, not 17.",
    "trajectories --examples -2": "examples of at least 0, not -2.",
    "trajectories seed=-1": "error: seed must be a whole number of at least 0,",
    "trajectories seed=abc": "error: seed must be a whole number of at least 0,",
    "trajectories source_language=xx": "error: Unknown language 'xx'; choose one of",
    "trajectories target_language=???": "error: target_language needs a value; ",
    "trajectories target_language=[de]": "error: Unknown target_language ",
    "trajectories target_language=${no}": "error: ${no} refers to the key 'no', ",
    "zoo.metrics.comet.score nope": "invalid choice: 'nope' (choose from 'check', 'score')",
    "report /nowhere": "error: /nowhere has no results.json; name the folder of an evaluation.",
    "report . --minutes nan": "error: zoo.report needs minutes of at least 0, not nan.",
    "submit system=infinisst": "error: Name the new folder of the submission once: folder=",
    "submit folder=. system=infnisst": "error: Unknown system 'infnisst'; choose one of:",
    "submit folder=a/b": "error: folder=a/b cannot be made: there is no folder a.",
    "submit folder=a system=replay": "error: 'replay' is no streaming system of the zoo, so no",
    "submit folder=a system=simulu": "emits speech, and the track takes text;",
    "submit folder=a experiment=demo": "error: A submission has one system; leave out compare",
    "submit folder=a evaluation.split=tst": "error: evaluation.split=tst is no development set",
    "submit folder=a data=iwslt": "error: data=iwslt needs data.segments, a YAML list of",
    "wandb-report --nope": "unrecognized arguments: --nope",
}
CHILDREN = {  # modules that the zoo itself starts, in processes or environments of their own
    "zoo.base.espeak.process",
    "zoo.apps.live.decode_process",
    "zoo.backbones.pretrained.chat_templates",
    "zoo.apps.live.scoring",
    "zoo.metrics.comet.score",
    "zoo.extras.xtts.xtts_process",
}
MAINTAINERS = {"zoo.config.generate"}  # writes a file of the repository
ROOT = Path(__file__).resolve().parents[1]


def run(*words: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """Run a command, or a module of ``CHILDREN``, as ``python -m`` does; return its exit code."""
    module = "zoo" if words[0] in COMMANDS else words[0]
    started = COMMANDS[words[0]][0] if words[0] in COMMANDS else words[0]
    monkeypatch.setattr(sys, "argv", [module, *words[module != "zoo" :]])
    if not hasattr(sys.modules.get(started), "__path__"):  # a package keeps its modules
        monkeypatch.delitem(sys.modules, started, raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module(module, run_name="__main__")
    return left.value.code


@pytest.mark.parametrize("given", WRONG)
def test_wrong_arguments(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*given.split(" "), monkeypatch=monkeypatch) == 2
    printed = capsys.readouterr()
    assert WRONG[given] in printed.err.splitlines()[-1]
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


def started() -> set[str]:
    """Modules with a block ``if __name__ == "__main__"``; a package for its ``__main__``."""
    found = set()
    for path in sorted((ROOT / "zoo").rglob("*.py")):
        last = ast.parse(path.read_text()).body[-1:]
        if last and isinstance(last[0], ast.If) and "__main__" in ast.unparse(last[0].test):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found.add(name.removesuffix(".__main__"))
    return found


def test_each_module_that_is_run_is_a_command() -> None:
    modules = [module for module, _ in COMMANDS.values()]
    others = CHILDREN | MAINTAINERS | {"zoo", "zoo.report"}  # the latter: a name of version 0.2
    assert started() == {*modules, *others}


@pytest.mark.parametrize("name", COMMANDS)
def test_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulzoo", name, "--help"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "simulzoo", name, "--help"])
    with suppress(SystemExit):
        main()
    printed = capsys.readouterr()
    assert printed.out.startswith(f"usage: simulzoo {name} ")
    assert printed.err == ""


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_the_commands_are_listed(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["-m", *words])
    main()
    printed = capsys.readouterr().out
    assert printed.startswith("usage: python -m zoo COMMAND")
    assert all(f"\n  {name} " in printed for name in COMMANDS)


@pytest.mark.parametrize("name", ["live", "translate", "prepare", "submit", "report"])
def test_commands_of_version_0_2(name: str, tmp_path: Path) -> None:
    done = processes.run("-m", f"zoo.{name}", "--help", folder=tmp_path)
    assert done.stdout.startswith(f"usage: python -m zoo {name} ")


@pytest.mark.parametrize("place", ["nowhere/a.json", "."])
def test_a_report_of_runs_that_cannot_be_written(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb_workspaces", reason="the extra wandb-report is not installed")
    monkeypatch.chdir(tmp_path)
    assert run("wandb-report", "--json", place, monkeypatch=monkeypatch) == 2
    expected = f"error: --json is {place}; name a file in an existing folder.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"folder": "a"}', b"[" * 100_000])
def test_texts_for_comet_that_are_no_texts(content: bytes) -> None:
    with pytest.raises(score.BadModel, match=r"^Line 1 of standard input must be a JSON object"):
        score.read_lines(content)
