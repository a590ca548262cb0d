"""Who may import whom, read from the source without running it."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import zoo

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = {
    "zoo.base.types",
    "zoo.base.errors",
    "zoo.base.languages",
    "zoo.streaming.abbreviations",
    "zoo.streaming.session",
}
MAY_IMPORT = {
    "policies": {*CONTRACT, "zoo.policies"},
    "history": {*CONTRACT, "zoo.history"},
    "context": {*CONTRACT, "zoo.systems.context", "zoo.formats.documents", "zoo.formats.glossary"},
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
    "formats": {
        *CONTRACT,
        "zoo.base.audio",
        "zoo.base.talks",
        "zoo.base.disk.files",
        "zoo.formats",
        "zoo.base.disk.parsing",
        "zoo.streaming.elapsed",
        "zoo.streaming.playback",
        "zoo.streaming.waveforms",
    },
    "interop": {
        *CONTRACT,
        "zoo.base.audio",
        "zoo.base.machine.secrets",
        "zoo.base.disk.parsing",
        "zoo.base.talks",
        "zoo.base.machine.devices",
        "zoo.formats",
        "zoo.extras.interop",
        "zoo.apps.loading",
        "zoo.streaming",
        "zoo.systems",
    },
    "streaming": {
        *CONTRACT,
        "zoo.base.audio",
        "zoo.base.talks",
        "zoo.base.machine.devices",
        "zoo.streaming",
    },
    "alignment": {  # aligners of corpora run pretrained networks on talks
        "zoo.base.types",
        "zoo.base.errors",
        "zoo.base.languages",
        "zoo.base.disk.files",
        "zoo.base.disk.parsing",
        "zoo.base.disk.tar_members",
        "zoo.base.audio",
        "zoo.base.progress",
        "zoo.base.talks",
        "zoo.data.word_times",
        "zoo.backbones.base",
        "zoo.backbones.pretrained",
        "zoo.backbones.ctc",
        "zoo.alignment",
    },
    "translators": {
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
ABOVE = {
    f"zoo.{noun}" for noun in ("policies", "history", "systems", "metrics", "evaluation", "report")
}
FORBIDDEN = {
    "zoo": {"benchmarks", "tests", "recipes", *SCRIPTS},
    "zoo/policies": {*NETWORKS, *CLOCK},
    "zoo/history": {*NETWORKS, *CLOCK},
    "zoo/context": {*NETWORKS, *CLOCK},
    "zoo/systems": CLOCK,
    "zoo/synthesizers": {*ABOVE, *CLOCK},  # a synthesizer may know a backbone
    "zoo/backbones": {*ABOVE, *CLOCK, "zoo.synthesizers"},
    "zoo/data": {"zoo.report", "zoo.evaluation", "zoo.systems", "zoo.metrics", "zoo.runs"},
    "zoo/prepare": {
        f"zoo.{noun}" for noun in ("backbones", "systems", "policies", "history", "training")
    },
    "benchmarks": {"tests"},
    "recipes": {"benchmarks", "tests", "zoo.evaluation", "zoo.report"},
}
# What a run folder holds is known to ``zoo.runs.rows`` alone; commands join these packages.
MEETING = {
    "zoo/report": {"zoo.evaluation", "zoo.runs", "zoo.training"},
    "zoo/evaluation": {"zoo.report"},
    "zoo/tracking": {"zoo.report", "zoo.evaluation"},
    "zoo/results": {"zoo.report", "zoo.evaluation", "zoo.runs", "zoo.metrics"},
    "zoo/metrics": {"zoo.runs.rows", "zoo.report", "zoo.evaluation", "zoo.runs"},
}
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


@pytest.mark.parametrize("folder", [*FORBIDDEN, *MEETING])
def test_a_folder_imports_nothing_that_is_forbidden(folder: str) -> None:
    forbidden = {**FORBIDDEN, **MEETING}[folder]
    wrong = [(file, name) for file, name in imports(folder) if within(name, forbidden)]
    if folder in MEETING:
        wrong = [pair for pair in wrong if not pair[0].endswith("/__main__.py")]
    assert wrong == []


def families() -> list[str]:
    """Modules of backbones besides the contract and what is common: a folder or a file each."""
    found = (ROOT / "zoo/backbones").iterdir()
    names = {file.stem for file in found if file.is_dir() or file.suffix == ".py"}
    return sorted(names - {"__init__", "__pycache__", "base", "common", "objective"})


def test_a_family_of_backbones_imports_no_other_family() -> None:
    """A cascade receives its recogniser, and TextToSpeech its model, by name or by argument."""
    for family in families():
        others = {f"zoo.backbones.{other}" for other in families() if other != family}
        found = [pair for pair in imports("zoo/backbones") if within(module(pair[0]), {family})]
        assert found, family
        assert [(file, name) for file, name in found if within(name, others)] == []


@pytest.mark.parametrize("package", ["training", "objectives", "data"])
def test_what_serves_all_families_imports_none(package: str) -> None:
    contract = {"zoo.backbones.base", "zoo.backbones.objective"}
    assert [
        (file, name)
        for file, name in imports(f"zoo/{package}")
        if within(name, {"zoo.backbones"}) and not within(name, contract)
    ] == []


def test_networks_know_no_corpus() -> None:
    """Only a family's objective, which no network imports, reads examples of a corpus."""
    above = {f"zoo.{name}" for name in ("config", "training", "objectives", "prepare", "commands")}
    wrong = [
        (file, name)
        for file, name in imports("zoo/backbones")
        if within(name, above)
        or (not file.endswith("/objective.py") and within(name, {"zoo.data"}))
        or (not file.endswith("/objective.py") and "objective" in name.split("."))
    ]
    assert wrong == []


def test_what_is_common_to_backbones_imports_no_family() -> None:
    others = {f"zoo.backbones.{family}" for family in families()}
    assert [
        (file, name) for file, name in imports("zoo/backbones/common") if within(name, others)
    ] == []
    contract = [name for file, name in imports("zoo/backbones") if module(file) == "base"]
    assert [name for name in contract if within(name, {"zoo.backbones"})] == []


def module(file: str) -> str:
    """``whisper`` for zoo/backbones/whisper.py, ``lst.data`` for zoo/backbones/lst/data.py."""
    return file.removeprefix("zoo/backbones/").removesuffix(".py").replace("/", ".")


def test_no_two_packages_import_each_other() -> None:
    pairs = {
        (Path(file).relative_to("zoo").parts[0].removesuffix(".py"), name.split(".")[1])
        for file, name in imports("zoo")
        if name.startswith("zoo.")
    }
    assert {(a, b) for a, b in pairs if a < b and (b, a) in pairs} == set()


def test_public_names_and_commands_are_imported_by_nothing_below_them() -> None:
    public = {"zoo.__version__", *(f"zoo.{name}" for name in zoo.__all__)}
    assert [(file, name) for file, name in imports("zoo") if name in public] == []
    users = {file for file, name in imports("zoo") if within(name, {"zoo.apps"})}
    assert {file for file in users if not file.startswith("zoo/commands/")} == {
        f"zoo/{package}__main__.py" for package in ("", "live/", "prepare/")
    }


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
    assert '"zoo.apps.prepare.job:prepare"' in (ROOT / "zoo/apps/__init__.py").read_text()


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
        "types.py",
        "errors.py",
        "languages.py",
        "disk/files.py",
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
        "import zoo.systems.base\nfrom zoo.metrics import latency\nfrom zoo import types\n"
    )
    names = list(imported(tree))
    assert names == ["zoo.systems.base", "zoo.metrics.latency", "zoo.base.types"]
    assert [within(name, CONTRACT) for name in names] == [False, False, True]
    assert not within("zoo.typescript", {"zoo.base.types"})
