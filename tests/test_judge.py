"""The judge finds each kind of violation that is made on purpose, and none in loads of the zoo."""

import importlib
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.utils import instantiate
from omegaconf import OmegaConf

import zoo
from tests.fixtures.hostile import Payload
from tests.fixtures.hostile_exports import hostile_configs, hostile_exports, write_export
from tests.fixtures.hostile_records import NODES, RECORD
from tests.fixtures.judge import Violation, judge, judged

__all__ = ["judged"]  # a fixture

CHECKPOINTS = Path(__file__).resolve().parents[1] / "checkpoints"
# Nodes that Hydra creates, and what they do. Hydra itself refuses functions such as os.system.
DONE = {
    "torch.load": "pickle",
    "pandas.read_pickle": "pickle",
    "joblib.load": "pickle",
    "numpy.load": "pickle",
    "torch.jit.load": "code",
    "torch.hub.load": "code",
    "torch.ops.load_library": "code",
    "sympy.sympify": "code",
    "AutoModel": "code",
    "an importable module": "code",
    "os.makedirs": "write",
    "shutil.copyfile": "write",
    "numpy.savetxt": "write",
    "zoo.base.disk.files.append_line": "write",
    "builtins.open": "write",
    "hydra.utils.instantiate": "write",
    "zoo.training.writing": "write",
    "a function of Lightning": "write",
    "urlretrieve": "connection",
    "socket.create_connection": "connection",
}


@pytest.fixture(autouse=True)
def _attacks_leave_no_module() -> Iterator[None]:
    """Other files of tests assert that the module of an attack is not imported."""
    yield
    sys.modules.pop("evil", None)


def connect() -> None:
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", 9))


def resolve() -> None:
    OmegaConf.to_container(OmegaConf.create({"a": "${oc.env:HOME}"}), resolve=True)


def kinds(events: list[Violation]) -> set[str]:
    return {one.kind for one in events}


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("pickle", lambda folder: pickle.loads(pickle.dumps(Payload(folder / "ran"))).close()),
        ("process", lambda _: subprocess.run(["true"], check=True)),
        ("connection", lambda _: connect()),
        ("write", lambda folder: (folder / "new").write_text("")),
        ("write", lambda folder: (folder / "new").mkdir()),
        ("write", lambda folder: (folder / "new").symlink_to(folder)),
        ("write", lambda folder: torch.save({}, folder / "new.pt")),
        ("code", lambda _: exec("a = 1")),
        ("code", lambda _: eval("1 + 1")),
        ("environment", lambda _: resolve()),
    ],
)
def test_a_violation(kind: str, call: Callable[[Path], object], tmp_path: Path) -> None:
    with judge(folder=tmp_path, collect=True) as events:
        call(tmp_path)
    assert kind in kinds(events)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(AssertionError, match=f"{kind}: "), judge(folder=other):
        call(other)


def test_modules_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_a_folder.py").write_text("a = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):  # the second time from bytecode
        with judge(collect=True) as events:
            importlib.import_module("module_of_a_folder")
        assert any("module_of_a_folder.py" in one.what for one in events)
        del sys.modules["module_of_a_folder"]


def test_what_happened_has_a_place(tmp_path: Path) -> None:
    with judge(collect=True) as events:
        (tmp_path / "new").write_text("")
    assert events[0].what == f"open {tmp_path / 'new'}"
    assert any("test_what_happened_has_a_place" in line for line in events[0].stack)


def test_folders_that_may_be_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to(outside)
    with judge(allowed_writes=(allowed,), collect=True) as events:
        (allowed / "new").write_text("")
        (allowed / "new").rename(allowed / "renamed")
        assert not events
        (allowed / "link").write_text("")  # writes the file that it names
    assert [one.what for one in events] == [f"open {outside}"]
    with judge(allowed_writes=(allowed,)):
        (allowed / "link").unlink()


def test_resolvers_that_a_folder_names(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("a: ${oc.create:[1]}\n")
    with judge(folder=tmp_path, collect=True) as events:
        OmegaConf.to_container(OmegaConf.create({"a": "${oc.create:[2]}"}), resolve=True)
        assert not events
        OmegaConf.to_container(OmegaConf.load(tmp_path / "config.yaml"), resolve=True)
    assert kinds(events) == {"environment"}


def test_nothing_is_judged_afterwards(tmp_path: Path) -> None:
    with judge() as events:
        pass
    (tmp_path / "new").write_text("")
    exec("a = 1")
    assert not events


def test_a_fixture(judged: list[Violation], tmp_path: Path) -> None:
    (tmp_path / "new").write_text("")
    assert not judged
    exec("a = 1")
    assert kinds(judged) == {"code"}
    judged.clear()


@pytest.mark.parametrize("name", ["infinisst_minitalks_en-de", "simulu_minitalks_en-de"])
def test_loads_of_shipped_checkpoints(name: str) -> None:
    with judge(folder=CHECKPOINTS / name):
        zoo.load(name).configure_model()


def test_an_export_without_an_attack(tmp_path: Path) -> None:
    folder = write_export(tmp_path / "export", RECORD)
    with judge(folder=folder):
        zoo.load(folder).configure_model()
    assert not list(folder.rglob("ran"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # "ran" stays open
@pytest.mark.parametrize("name", DONE)
def test_what_a_hostile_node_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attacks of the fixtures work where nothing refuses them."""
    folder = write_export(tmp_path / "export", RECORD)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path))
    line = f"++x={NODES[name]}".replace("{folder}", str(folder))
    value = OverridesParser.create().parse_override(line).value()
    with judge(folder=folder, collect=True) as events:
        try:
            instantiate(OmegaConf.create({"x": value}).x)
        except Exception as error:  # the end of an attack that did something before
            print(error)
    assert DONE[name] in kinds(events)


def test_the_table_of_attacks() -> None:
    assert len(hostile_exports()) >= 45
    assert len(hostile_configs()) >= 20
    assert all(
        lines and all(map(str.isprintable, name)) for name, lines in hostile_exports().items()
    )
