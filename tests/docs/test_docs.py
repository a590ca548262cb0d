"""Documentation: examples run, YAML binds, commands compose, files and links exist."""

import inspect
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from zoo.__main__ import COMMANDS
from zoo.config import Config, build, compose, plain
from zoo.systems.base import StreamingSystem

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]
PAGES = [page for page in PAGES if page.is_file()]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile(r"<[^<>]+>")
COMMAND = re.compile(
    r"python (?:-m zoo )?(train|evaluate|translate|prepare|submit)(?:\.py)?(?![.\w])([^\n`#]*)"
)
PATH = re.compile(
    r"`((?:zoo|conf|docs|tests|benchmarks|checkpoints)/[\w./*-]+|(?:train|evaluate)\.py)`"
)
KEY = re.compile(r"`([a-z_]+(?:\.[a-z_0-9]+)+)`")
MODULE = re.compile(r"python -m ((?:zoo|tests)[\w.]*)")
NAMED = re.compile(r"python -m zoo ([a-z-]+)")
GROUPS = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()}
# A key of the policy that two pages write as an example, and files with names like keys.
EXAMPLE_KEYS = {"policy.words", "training.html", "training.png"}
JOBS = ("evaluate", "train", "translate", "live", "prepare")
# Pages whose Python blocks do not run in this process one after the other.
OTHER_BLOCKS = {
    "lightning.md": "each block is a script, run by test_lightning.py",
    "infinisst.md": "needs MuST-C and the reader's word times and alignments",
    "python.md": "the blocks need an audio file and run in test_python.py",
    "tracking.md": "a part of a job, which names values of the job around it",
}
MADE_LATER = ("checkpoints/",)  # by a training


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return [
        body for name, body in FENCE.findall(page.read_text(encoding="utf-8")) if name == language
    ]


def commands() -> Iterator[tuple[str, str, str]]:
    """(page, entry point, rest of the line) of every command on every page.

    Longer lines may end in a backslash. Completion has a test in tests/config/test_help.py.
    """
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for name, rest in COMMAND.findall(text):
            if name == "submit":  # takes the overrides of an evaluation, and a folder
                name, rest = "evaluate", re.sub(r"\bfolder=\S+", "", rest)
            if "--shell-completion" not in rest:
                yield page.name, name, rest


def overrides(rest: str) -> list[str]:
    """The overrides of a command line: the first choice of each sweep, a value per placeholder."""
    words = shlex.split(PLACEHOLDER.sub("placeholder", rest).replace("...", ""))
    given = [word for word in words if "=" in word and not word.startswith("-")]
    given = [re.sub(r"=choice\((\[.*?\]|[^,]*).*\)$", r"=\1", word) for word in given]
    swept = "-m" in words or "--multirun" in words
    return [re.sub(r"=([^\[{]*?),.*", r"=\1", word) if swept else word for word in given]


def mentioned() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(page, entry point, overrides) of each inline ``key=value ...`` with a known first key."""
    roots = {name: {*compose(name), "experiment"} for name in JOBS}
    for page in PAGES:
        for span in re.findall(r"`(\+?[a-z_]+[\w.]*=[^`\n]+)`", page.read_text(encoding="utf-8")):
            root = re.split(r"[.=]", span.lstrip("+"))[0]
            name = next((name for name, keys in roots.items() if root in keys), None)
            if name is not None:
                yield page.name, name, tuple(overrides(span))


def once(found: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sorted, with one page of each command that several pages have."""
    return list({item[1:]: item for item in sorted(found)}.values())


def dotted(node: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of all keys below a node of a configuration."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield f"{prefix}{name}"
            yield from dotted(value, f"{prefix}{name}.")


@cache
def keys(name: str, *given: str) -> frozenset[str]:
    """The dotted names of all keys of a composed configuration."""
    return frozenset(dotted(plain(compose(name, list(given)))))


def key_exists(key: str) -> bool:
    """Whether the default configurations or another choice of the part have the key."""
    group = key.partition(".")[0]
    if any(key in keys(job) for job in JOBS):
        return True
    if group in ("training", "trainer"):
        experiments = sorted((ROOT / "conf" / "experiment").glob("*_minitalks.yaml"))
        return any(key in keys("train", f"experiment={path.stem}") for path in experiments)
    choices = sorted((ROOT / "conf" / group).glob("*.yaml"))
    job = "prepare" if group in ("word_times", "word_alignment") else "evaluate"
    start = () if group == "system" or job == "prepare" else ("system=streamatt",)
    return any(key in keys(job, *start, f"{group}={path.stem}") for path in choices)


def example(page: Path) -> dict[str, Any]:
    """The namespace after all Python blocks of a page."""
    names: dict[str, Any] = {"__name__": f"docs.{page.stem}"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}[{number}]", "exec"), names)
    return names


def check_fit(cfg: Config) -> None:
    """The parts fit, and the policy has the knob. Raises ZooError."""
    system = build(cfg.system)
    if isinstance(system, StreamingSystem) and system.knob is not None:
        for value in cfg.evaluation.knob_values or system.knob.values:
            system.check_knob(value)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "python") and page.name not in OTHER_BLOCKS],
    ids=lambda page: page.stem,
)
def test_examples_run(page: Path) -> None:
    names = example(page)
    for block in blocks(page, "yaml") if page.name.startswith("add_a_") else ():
        node = yaml.safe_load(block)
        name = node.pop("_target_").rpartition(".")[2]
        inspect.signature(names[name]).bind(**node)


@pytest.mark.parametrize("name", OTHER_BLOCKS)
def test_other_examples_are_python(name: str) -> None:
    found = blocks(ROOT / "docs" / name, "python")
    assert found
    for block in found:
        compile(block, name, "exec")


@pytest.mark.parametrize(("page", "name", "rest"), once(commands()))
def test_commands_compose(page: str, name: str, rest: str) -> None:
    cfg = compose(name, overrides(rest))
    assert plain(cfg)
    if name == "evaluate":
        check_fit(cfg)


@pytest.mark.parametrize(("page", "name", "given"), once(mentioned()))
def test_overrides_compose(page: str, name: str, given: tuple[str, ...]) -> None:
    cfg = compose(name, list(given))
    assert plain(cfg)
    for part in ("backbone", "data", "evaluation") if name == "evaluate" else ("training",):
        if part in cfg:  # a recorded log has no backbone
            build(cfg[part])
    if name == "evaluate" and any(override.startswith("system=") for override in given):
        check_fit(cfg)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_keys_exist(page: Path) -> None:
    """Keys that a page names without a value; an override is composed above."""
    known = keys("evaluate") | keys("train") | keys("prepare")
    roots = (GROUPS - {"hydra"}) | {key.partition(".")[0] for key in known}
    named = set(KEY.findall(page.read_text(encoding="utf-8"))) - EXAMPLE_KEYS
    named = {key for key in named if key.partition(".")[0] in roots}
    assert [key for key in sorted(named) if not key_exists(key)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_modules_are_commands(page: Path) -> None:
    modules = MODULE.findall(page.read_text(encoding="utf-8"))
    places = [ROOT / module.replace(".", "/") for module in modules]
    sources = [
        place / "__main__.py" if place.is_dir() else place.with_suffix(".py") for place in places
    ]
    assert [path for path in sources if '"__main__"' not in path.read_text("utf-8")] == []
    assert set(NAMED.findall(page.read_text(encoding="utf-8"))) <= COMMANDS.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_exist(page: Path) -> None:
    named = [
        path
        for path in PATH.findall(page.read_text(encoding="utf-8"))
        if not path.startswith(MADE_LATER)
    ]
    assert [path for path in named if not list(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert (
        set(re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
        <= targets
    )


def test_overrides_are_read_from_a_command() -> None:
    assert overrides(" system=infinisst data.root=<folder> ") == [
        "system=infinisst",
        "data.root=placeholder",
    ]
    assert overrides(" -m seed=0,1,2 evaluation.oracle_k=[1,3]") == [
        "seed=0",
        "evaluation.oracle_k=[1,3]",
    ]
    assert overrides(" ... key=value --flag") == ["key=value"]
