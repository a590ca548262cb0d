"""Who may import whom, read from the source without running it."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import zoo

ROOT = Path(__file__).resolve().parents[1]
# The packages of the zoo from the ground up. A package imports packages before it alone, so nothing
# imports an extra.
ORDER = (
    *("base", "config", "streaming", "formats", "data"),
    *("policies", "history", "backbones", "synthesizers", "systems"),
    *("alignment", "runs", "metrics", "evaluation", "report", "training"),
    *("apps", "extras"),
)
CONTRACT = {
    "zoo.base.types",
    "zoo.base.errors",
    "zoo.base.languages",
    "zoo.streaming.abbreviations",
    "zoo.streaming.session",
}
ALIGNERS = {  # of corpora run pretrained networks on talks
    "zoo.base",
    "zoo.data.word_times",
    "zoo.backbones.base",
    "zoo.backbones.pretrained",
    "zoo.backbones.ctc",
    "zoo.alignment",
}
MAY_IMPORT = {
    "policies": {*CONTRACT, "zoo.policies"},
    "history": {*CONTRACT, "zoo.history"},
    "systems/context": {
        *CONTRACT,
        "zoo.systems.context",
        "zoo.formats.documents",
        "zoo.formats.glossary",
    },
    "metrics": {
        *CONTRACT,
        "zoo.formats.glossary",
        "zoo.base.talks",
        "zoo.base.disk.files",
        "zoo.metrics",
        "zoo.base.version",
        "zoo.alignment.recognisers.base",
        "zoo.streaming.elapsed",
        "zoo.streaming.playback",
        "zoo.streaming.segments",
    },
    "alignment/times": ALIGNERS,
    "alignment/words": ALIGNERS,
    "apps/prepare/translators": {
        *CONTRACT,
        "zoo.alignment.base",
        "zoo.apps.prepare.translators",
        "zoo.backbones.base",
        "zoo.backbones.pretrained",
        "zoo.backbones.text",
    },
}
SCRIPTS = {file.stem for file in (ROOT / "benchmarks").glob("*.py")}
CLOCK = {"time", "datetime"}  # read by the simulation and by training alone
NETWORKS = {"transformers", "lightning", "torch.nn"}
POLICY = {"zoo.policies", "zoo.history"}
FORBIDDEN = {
    "zoo": {"benchmarks", "tests", "recipes", *SCRIPTS},
    "zoo/policies": {*NETWORKS, *CLOCK},
    "zoo/history": {*NETWORKS, *CLOCK},
    "zoo/systems": CLOCK,
    "zoo/systems/context": NETWORKS,
    "zoo/synthesizers": {*POLICY, *CLOCK, "zoo.config"},  # a synthesizer may know a backbone
    "zoo/backbones": {*POLICY, *CLOCK, "zoo.config"},
    "zoo/data": {"zoo.config"},
    "zoo/report": {"zoo.evaluation"},
    "benchmarks": {"tests"},
    "recipes": {"benchmarks", "tests", "zoo.evaluation", "zoo.report"},
}
# Parts of backbones that families share; everything else is a family, a folder or a file each.
CONTRACTS = {"base", "objective", "excerpt", "families"}
SHARED = {"architectures", "decoding", "encoders", "pretrained", "text"}
CONFIGURATION = "zoo/config/"
RESOLVERS = {"zoo/base/machine/launch.py"}  # names run folders for the configuration


def imported(tree: ast.AST) -> Iterator[str]:
    """Every imported module; ``from a import b`` gives ``a.b``, for b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide what is imported"
            yield from (f"{node.module}.{name.name}" for name in node.names)


@functools.cache
def names_in(file: Path) -> list[str]:
    """Every module that a file imports; files are parsed once for all tests."""
    return list(imported(ast.parse(file.read_text())))


def imports(folder: str) -> list[tuple[str, str]]:
    """(file, imported module) for all Python files below ``folder``."""
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files, folder
    return [(str(file.relative_to(ROOT)), name) for file in files for name in names_in(file)]


def within(name: str, packages: set[str]) -> bool:
    """Whether ``name`` is one of ``packages`` or inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("noun", MAY_IMPORT)
def test_a_noun_imports_only_the_contract(noun: str) -> None:
    wrong = [
        (file, name)
        for file, name in imports(f"zoo/{noun}")
        if within(name, {"zoo"}) and not within(name, MAY_IMPORT[noun])
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_a_folder_imports_nothing_that_is_forbidden(folder: str) -> None:
    wrong = [(file, name) for file, name in imports(folder) if within(name, FORBIDDEN[folder])]
    assert wrong == []


def test_the_tree_shows_the_tiers() -> None:
    entries = {path.name for path in (ROOT / "zoo").iterdir() if path.name != "__pycache__"}
    assert entries == {*ORDER, "__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_what_stands_below_it(package: str) -> None:
    above = {f"zoo.{name}" for name in ORDER[ORDER.index(package) + 1 :]}
    assert [pair for pair in imports(f"zoo/{package}") if within(pair[1], above)] == []


def families() -> dict[str, str]:
    """The module of each family of networks by its path, in backbones and in extras."""
    inner = {path.stem for path in (ROOT / "zoo/backbones").iterdir()}
    names = inner - {*CONTRACTS, *SHARED, "__init__", "__pycache__"}
    extras = {path.stem for path in (ROOT / "zoo/extras").iterdir()} - {
        *("interop", "xtts", "__init__", "__pycache__", "README")
    }
    return {
        **{f"zoo/backbones/{name}": f"zoo.backbones.{name}" for name in sorted(names)},
        **{f"zoo/extras/{name}": f"zoo.extras.{name}" for name in sorted(extras)},
    }


@pytest.mark.parametrize("family", families())
def test_a_family_of_backbones_imports_no_other_family(family: str) -> None:
    """A cascade receives its recogniser, and TextToSpeech its model, by name or by argument."""
    others = {module for path, module in families().items() if path != family}
    found = [
        (file, name)
        for file, name in imports("zoo")
        if file == f"{family}.py" or file.startswith(f"{family}/")
    ]
    assert found
    assert [pair for pair in found if within(pair[1], others)] == []


@pytest.mark.parametrize("package", ["training", "data"])
def test_what_serves_all_families_imports_none(package: str) -> None:
    contract = {f"zoo.backbones.{name}" for name in CONTRACTS}
    assert [
        (file, name)
        for file, name in imports(f"zoo/{package}")
        if within(name, {"zoo.backbones"}) and not within(name, contract)
    ] == []


def test_networks_know_no_corpus() -> None:
    """Only a family's objective, which no network imports, reads examples of a corpus."""
    wrong = [
        (file, name)
        for file, name in imports("zoo/backbones")
        if not file.endswith("/objective.py")
        and (within(name, {"zoo.data"}) or "objective" in name.split("."))
    ]
    assert wrong == []


def test_what_is_common_to_backbones_imports_no_family() -> None:
    others = set(families().values())
    for folder in SHARED:
        found = imports(f"zoo/backbones/{folder}")
        assert [pair for pair in found if within(pair[1], others)] == []
    contract = names_in(ROOT / "zoo/backbones/base.py")
    assert [name for name in contract if within(name, {"zoo.backbones"})] == []


def test_public_names_are_imported_by_nothing_of_the_zoo() -> None:
    public = {"zoo.__version__", *(f"zoo.{name}" for name in zoo.__all__)}
    assert [(file, name) for file, name in imports("zoo") if name in public] == []


def test_no_two_modules_import_each_other() -> None:
    """Not even for types alone."""
    modules = {
        file: Path(file).with_suffix("").as_posix().replace("/", ".") for file, _ in imports("zoo")
    }
    pairs = {
        (modules[file], module)
        for file, name in imports("zoo")
        for module in (name, name.rpartition(".")[0])
    }
    known = set(modules.values())
    assert {(a, b) for a, b in pairs if a < b and b in known and (b, a) in pairs} == set()


def test_a_preparation_is_imported_by_its_command_alone() -> None:
    users = {file for file, name in imports("zoo") if within(name, {"zoo.apps.prepare"})}
    assert {file for file in users if not file.startswith("zoo/apps/prepare/")} == set()
    assert '"zoo.apps.prepare.job:prepare"' in (ROOT / "zoo/apps/prepare/__init__.py").read_text()


def test_nothing_in_the_zoo_imports_other_tools_or_interop() -> None:
    others = {"zoo.extras.interop", "simuleval", "simulstream", "omnisteval"}
    found = [
        file
        for file, name in imports("zoo")
        if within(name, others) and not file.startswith("zoo/extras/interop/")
    ]
    assert found == []


def test_types_and_streaming_state_import_no_upper_package() -> None:
    for file in (
        "base/types.py",
        "base/errors.py",
        "base/languages.py",
        "base/disk/files.py",
        "streaming/abbreviations.py",
        "streaming/session.py",
        "streaming/text.py",
        "streaming/elapsed.py",
        "streaming/playback.py",
        "streaming/segments.py",
    ):
        names = set(imported(ast.parse((ROOT / "zoo" / file).read_text())))
        allowed = {*CONTRACT, "zoo.base.disk.files", "zoo.streaming.text"}
        assert {
            name for name in names if within(name, {"zoo"}) and not within(name, allowed)
        } == set(), file


def test_only_the_configuration_imports_hydra() -> None:
    found = imports("zoo") + [
        (name, module)
        for name in ("train.py", "evaluate.py")
        for module in imported(ast.parse((ROOT / name).read_text()))
    ]
    for library, others in (("hydra", ()), ("omegaconf", RESOLVERS)):
        assert [
            (file, name)
            for file, name in found
            if within(name, {library}) and not file.startswith(CONFIGURATION) and file not in others
        ] == []


WRITERS = {  # functions that write what need not survive a crash or cannot be renamed
    "zoo/base/audio/files.py": {"write"},  # its callers name the file
    "zoo/data/cache.py": {"lock_folder"},  # empty files
    "zoo/data/manifest_index.py": {"write"},  # in a folder that is renamed when it is complete
    "zoo/metrics/comet/score.py": {"main"},  # a standard stream
    "zoo/metrics/mwer_segmenter.py": {"_quiet_stderr"},  # nothing
    "zoo/extras/xtts/xtts_process.py": {"main"},  # a standard stream
    "zoo/runs/rows/store.py": {"append"},  # an incomplete line is skipped and overwritten
}
WRITING = {"write_text", "write_bytes", "save_file", "savez", "savetxt", "tofile"}
SAVERS = {"torch.save", "np.save", "soundfile.write", "json.dump", "yaml.dump", "pickle.dump"}


def writes(node: ast.Call) -> bool:
    """Whether a call writes a file: a method of paths, a mode of ``open``, a known function."""
    called = ast.unparse(node.func)
    if isinstance(node.func, ast.Attribute) and node.func.attr in WRITING:
        return True
    if called in SAVERS | {"save_file"}:
        return True
    if called.rpartition(".")[2] not in ("open", "fdopen", "ZipFile"):
        return False
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    modes = {one.value for one in arguments if isinstance(one, ast.Constant)}
    return any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)


def unsafe_writers(tree: ast.AST) -> set[str]:
    """Functions that write a file, but not the temporary file of ``atomic_file``."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and writes(node)
        if "atomic_file(" not in ast.unparse(function)
        if "BytesIO(" not in ast.unparse(function)
    }


def test_only_one_module_writes_files() -> None:
    """Others write through it, so that every file is complete or absent after a crash."""
    found = {}
    for path in sorted((ROOT / "zoo").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        writers = unsafe_writers(ast.parse(path.read_text())) - WRITERS.get(name, set())
        if writers and name != "zoo/base/disk/files.py":
            found[name] = writers
    assert found == {}


def test_writers_are_found() -> None:
    source = """
def a(path): path.write_text("x")
def b(path): path.open("ab").write(b"")
def c(path): torch.save(1, path)
def d(path):
    with atomic_file(path) as temporary: torch.save(1, temporary)
def e(path): return path.open("rb"), path.read_text()
def f(path): write_text(path, "x")
"""
    assert unsafe_writers(ast.parse(source)) == {"a", "b", "c"}


def test_the_rules_catch_what_they_name() -> None:
    tree = ast.parse(
        "import zoo.systems.base\nfrom zoo.metrics import latency\nfrom zoo.base import types\n"
    )
    names = list(imported(tree))
    assert names == ["zoo.systems.base", "zoo.metrics.latency", "zoo.base.types"]
    assert [within(name, CONTRACT) for name in names] == [False, False, True]
    assert not within("zoo.base.typescript", {"zoo.base.types"})
