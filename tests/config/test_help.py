"""``--help``, ``python -m zoo keys``, completion, suggestions for mistyped names, closed pipes."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf.errors import OmegaConfBaseException

from zoo.apps import keys
from zoo.apps.translate.command_line import to_overrides
from zoo.base.errors import BAD_INPUT, CLOSED_PIPE, ZooError
from zoo.config import choices_of, compose, plain
from zoo.config.help import PAGES, help_of
from zoo.config.keys import Key, as_override, comments_of, keys_of
from zoo.config.mistakes import explained
from zoo.runs.rows.files import row_folder
from zoo.runs.rows.row import KnobValue

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = choices_of("evaluate", "system")
TRAININGS = ["infinisst_minitalks", "streamuni_phi4", "infinisst_ablation_m1", "teacher_forcing"]
CONFIGURATIONS = [
    *(("evaluate", f"system={name}") for name in SYSTEMS),
    *(("train", f"experiment={name}") for name in TRAININGS),
    *(("evaluate", f"size={name}") for name in ("published", "llama8b")),
    ("evaluate", "data=mustc"),
    ("translate", "system=simulu"),
    ("prepare", "word_times=ctc"),
]
VALUES = [
    *(None, True, 3, 0.5, "text", "null", "3", "a b", "it's", 'a "b"', "C:\\x", "$ {x}", "", "off"),
    *([1, "a,b", []], {"x": {"y": [None]}, "z": "1e3"}),
]


@pytest.mark.parametrize(("command", "choice"), CONFIGURATIONS)
def test_every_key_has_a_meaning_and_its_line_is_an_override(command: str, choice: str) -> None:
    found = keys_of(command, [choice])
    assert [key.name for key in found if not key.meaning] == []
    words = [shlex.split(str(key), comments=True) for key in found]
    assert all(len(line) == 1 for line in words)
    groups = choices_of_groups(command)
    typed = [line[0] for key, line in zip(found, words, strict=True) if key.name not in groups]
    assert len(typed) > 50
    given = [choice, *(item for item in typed if not item.endswith("=..."))]
    whole = plain(compose(command, given), resolve=False)
    assert whole == plain(compose(command, [choice]), resolve=False)


def choices_of_groups(command: str) -> set[str]:
    """Return the keys that are groups: their null is no override."""
    return {key.name for key in keys_of(command) if choices_of(command, key.name)}


def test_the_line_of_a_key() -> None:
    (frames,) = (key for key in keys_of("evaluate", ["system=streamatt"]) if "frames" in key.name)
    assert frames == Key(
        "policy.frames", 4, "a whole number", "f of the paper, in frames of the backbone"
    )
    assert str(Key("a.b", "x\ny", meaning="A text")).split() == ["a.b=...", "#", "A", "text"]


@pytest.mark.parametrize("value", VALUES)
def test_values_as_overrides(value: object) -> None:
    (override,) = OverridesParser.create().parse_overrides([f"x={as_override(value)}"])
    assert override.value() == value
    assert type(override.value()) is type(value)


def test_comments_of_files(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("a: 1 # number of a; more\nb: '#1 # no' # of b\n")
    (tmp_path / "own.yaml").write_text(
        "defaults:\n  - base\n  - _self_\nb: 2\nc:\n  d: [1] # of d\n"
    )
    expected = {"group.a": "number of a", "group.b": "of b", "group.c.d": "of d"}
    assert comments_of(tmp_path / "own.yaml", "group") == expected


@pytest.mark.parametrize("command", PAGES)
def test_examples(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.wav").touch()
    (tmp_path / "talks").mkdir()
    assert len(PAGES[command].examples) == 10
    printed = help_of(command, [])
    for example in PAGES[command].examples:
        assert f" {example}  " in printed
        words = [word for word in shlex.split(example) if word != "-m"]
        for given in jobs(to_overrides(words) if command == "translate" else words):
            compose(command, given)


def jobs(words: list[str]) -> list[list[str]]:
    """Return the overrides of each job of a sweep over at most one key."""
    parsed = OverridesParser.create().parse_overrides(words)
    swept = [item for item in parsed if item.is_sweep_override()]
    if not swept:
        return [words]
    rest = [item.input_line or "" for item in parsed if not item.is_sweep_override()]
    values = list(swept[0].sweep_string_iterator())
    assert len(swept) == 1
    assert len(values) > 1
    return [[*rest, f"{swept[0].key_or_group}={value}"] for value in values]


def test_help_shows_groups_and_the_keys_of_the_chosen_parts() -> None:
    printed = help_of("evaluate", ["system=streamatt"])
    assert printed.startswith("usage: python evaluate.py [group=choice ...] [key=value ...]\n")
    assert "\n  system          streamatt, alignatt, " in printed
    assert "\n  policy.frames=4  " in printed
    assert "--shell-completion" in printed
    with pytest.raises(ZooError, match=r"^Unknown system 'x'; choose one of: alignatt, "):
        help_of("evaluate", ["system=x"])


def test_keys_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for typed in (["system=streamatt"], ["evaluate", "system=streamatt"]):
        keys.main(typed)
        assert "\npolicy.frames=4 " in capsys.readouterr().out
    keys.main(["train", "optimizer=adam"])
    assert "\ntraining.objectives." in capsys.readouterr().out
    with pytest.raises(SystemExit):
        keys.main(["--help"])
    assert capsys.readouterr().out.startswith("usage: python -m zoo keys ")
    with pytest.raises(SystemExit) as ended:
        keys.main(["evalute"])
    assert ended.value.code == BAD_INPUT


def test_keys_begin_with_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    keys.main(["system=streamatt"])
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"policy=alignatt +# or edatt, local_agreement, ", lines[3])
    assert "# metric=... one of chrfpp, lowercase_bleu, ter, terms" in lines


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["sytem=streamatt"], "system"),
        (["experimnt=demo"], "experiment"),
        (["metrc=[ter]"], "metric"),
        (["talks=1"], "evaluation.talks"),
        (["frames=3"], "policy.frames"),
        (["evaluation.frames=3"], "policy.frames"),
        (["backbone.serch.beams=2"], "backbone.search"),
        (["backbone.search.beam=2"], "backbone.search.beams"),
        (["system=StreamAtt"], "streamatt"),
        (["streamatt"], "system=streamatt"),
        (["data=mustC"], "mustc"),
        (["hydra.run.di=x"], "hydra.run.dir"),
    ],
)
def test_what_was_meant(typed: list[str], meant: str) -> None:
    with pytest.raises(ZooError, match=rf"\. Did you mean {meant}\?$"):
        compose("evaluate", typed)


@pytest.mark.parametrize("typed", ["nonsense=1", "optimizer=adam", "system=x", "foo"])
def test_nothing_similar_is_suggested_for_what_resembles_nothing(typed: str) -> None:
    with pytest.raises(ZooError, match=r"\.$"):
        compose("evaluate", [typed])


@pytest.mark.parametrize(
    "path",
    [
        *("a=b/x.log", "a#1/x.log", "中文/x.log", "Müller/x.log", "it's/x.log", "a&b/x.log"),
        *('a"b/x.log', "a(1/x.log", 'a\\"b/x.log'),
    ],
)
def test_a_path_can_be_typed_as_the_sentence_writes_it(path: str) -> None:
    with pytest.raises(ZooError, match="with two pairs of quotes: ") as raised:
        compose("evaluate", ["system=replay", f"system.log={path}"])
    written = str(raised.value).rpartition("two pairs of quotes: ")[2].removesuffix(".")
    [typed] = shlex.split(written)
    assert compose("evaluate", ["system=replay", typed]).system.log == path


def test_a_path_with_commas_can_be_typed_as_the_sentence_writes_it() -> None:
    with pytest.raises(ZooError, match="several values") as raised:
        compose("evaluate", ["system=replay", "system.log=a,b/x.log"])
    [typed] = shlex.split(
        str(raised.value).rpartition("two pairs of quotes: ")[2].removesuffix(".")
    )
    assert compose("evaluate", ["system=replay", typed]).system.log == "a,b/x.log"


@pytest.mark.parametrize("system", ["local_agreement+backbone=chat_server", "Größe 中文", "a#b"])
def test_folders_of_rows_need_no_quotes(system: str, tmp_path: Path) -> None:
    log = f"{row_folder(tmp_path, 3, system, KnobValue('m', 0.5))}/instances.log"
    cfg = compose("evaluate", ["system=replay", f"system.log={log}"])
    assert cfg.system.log == log


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("seed=[1", "Cannot read 'seed=[1'; write key=value, with all brackets and quotes closed"),
        ("compare={a:[system=x]}", "Cannot read 'compare={a:[system=x]}'; write 'compare={NAME: ["),
        ("seed==3", "Cannot read 'seed==3'; write key=value, "),
        (
            "seed=a b=c",
            "Cannot read 'seed=a b=c'; write key=value, and a value with spaces, signs or",
        ),
        ("=3", "Cannot read '=3'; write key=value or group=choice."),
        ("system@x=a", "system has no place 'x' here; write system=CHOICE."),
        ("seed=${nope}", "${nope} refers to the key 'nope', which does not exist."),
        ("seed=${nope:1}", "${nope:...} calls 'nope', which does not exist."),
        ("hydra.job.chdir=x", "hydra.job.chdir=x does not fit: Value 'x' is not a valid bool."),
    ],
)
def test_words_of_hydra_and_omegaconf(typed: str, sentence: str) -> None:
    with pytest.raises((ZooError, OmegaConfBaseException)) as caught:
        plain(compose("evaluate", [typed]))
    found = caught.value  # a link is resolved when its value is used
    shown = explained(found, "evaluate", [typed]) if not isinstance(found, ZooError) else str(found)
    assert shown.startswith(sentence)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-cd", "nowhere"], "There is no folder nowhere (--config-dir)."),
        (["--package", "data"], "--package prints a part of the configuration with --cfg; "),
        (["-cp", "conf"], "evaluate.py reads evaluate.yaml and no other main file; instead of "),
    ],
)
def test_options(options: list[str], sentence: str) -> None:
    done = evaluate(*options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sentence}")


def test_an_experiment_of_another_command_is_refused() -> None:
    expected = r"^Experiment 'benchmark' is not for train.py, which has no 'compare'\.$"
    with pytest.raises(ZooError, match=expected):
        compose("train", ["experiment=benchmark"])


def test_completion() -> None:
    for typed, expected in (
        ("system=streamuni system=stream", {"system=streamuni", "system=streamatt"}),
        ("system=streamatt policy.fr", {"policy.frames="}),
        ("evaluation.ta", {"evaluation.talks="}),
    ):
        line = f"python evaluate.py {typed}"
        places = {"COMP_LINE": line, "COMP_POINT": str(len(line))}
        found = evaluate("-sc", "query=bash", **places).stdout.split()
        assert expected <= set(found)


def test_completion_in_a_shell() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = """
eval "$(python evaluate.py --shell-completion install=bash)"
COMP_WORDS=(python evaluate.py system=streamu) COMP_CWORD=2
COMP_LINE="${COMP_WORDS[*]}" COMP_POINT=${#COMP_LINE}
hydra_bash_completion
echo "${COMPREPLY[@]}"
"""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "-c", script], cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["system=streamuni"]


@pytest.mark.parametrize("arguments", [["evaluate.py", "--help"], ["-m", "zoo", "keys"]])
def test_a_reader_that_ends(arguments: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == CLOSED_PIPE


def evaluate(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run evaluate.py."""
    return subprocess.run(
        [sys.executable, "evaluate.py", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
