"""The wheel holds the package with its configuration; its commands work from an empty folder."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "zoo", "conf")
CHECKPOINT = ROOT / "checkpoints" / "infinisst_minitalks_en-de"


def pip(*arguments: str) -> None:
    """Run pip without an index; fail with its output."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--no-deps", "--no-index"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the sources: a build leaves files beside them."""
    pytest.importorskip("setuptools", reason="setuptools builds the wheel")
    pytest.importorskip("pip", reason="pip builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    pip("wheel", str(folder), "--no-build-isolation", "--wheel-dir", str(folder / "out"))
    (built,) = (folder / "out").glob("simulzoo-*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel is installed in."""
    folder = tmp_path_factory.mktemp("site")
    pip("install", str(wheel), "--target", str(folder))
    return folder


def run(
    site: Path, here: Path, *overrides: str, command: str = "evaluate"
) -> subprocess.CompletedProcess[str]:
    """Run a job of the package from the folder ``here``."""
    return start(site, here, str(site / "bin/simulzoo"), command, "logger=csv", *overrides)


def start(site: Path, here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the package from the folder ``here``."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True)


def no_weights(folder: str) -> str:
    """The beginning of the error for a folder of weights."""
    return (
        f"The package contains no weights, and there is no checkpoints/{folder} here; run `git "
        "clone --depth 1 https://github.com/simulzoo/simulzoo && cp -r simulzoo/checkpoints .`"
    )


def test_the_wheel_holds_code_configuration_and_the_mark_of_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder, pattern, place in (("zoo", "*.py", "zoo"), ("conf", "*.yaml", "zoo/conf")):
        files = {path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob(pattern)}
        assert {f"{place}/{file.as_posix()}" for file in files} <= names
    assets = {f"zoo/report/assets/{file.name}" for file in (ROOT / "zoo/report/assets").iterdir()}
    assert {"zoo/py.typed", "zoo/report/assets/report.html", *assets} <= names
    others = ("tests/", "conf/", "checkpoints/", "recipes/")
    assert not [name for name in names if name.startswith(others)]


def test_an_installed_package_evaluates_the_weights_that_it_is_given(
    site: Path, tmp_path: Path
) -> None:
    done = run(site, tmp_path, "smoke=true", f"backbone.checkpoint={CHECKPOINT}")
    assert done.returncode == 0, done.stderr
    assert "passed: all" in done.stdout


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("simulzoo evaluate smoke=true logger=csv", "infinisst_minitalks_en-de"),
        ("simulzoo train experiment=lst_minitalks logger=csv", "infinisst_minitalks_en-de"),
        ("simulzoo translate talk.wav system=simulu", "simulu_minitalks_en-de"),
        ("simulzoo alignment-heads system=streamatt", "offline_minitalks_en-de"),
    ],
)
def test_an_installed_package_without_weights_prints_the_command_that_gets_them(
    site: Path, tmp_path: Path, command: str, folder: str
) -> None:
    soundfile.write(tmp_path / "talk.wav", np.full(16_000, 0.1, dtype=np.float32), 16_000)
    script, *arguments = command.split()
    done = start(site, tmp_path, str(site / "bin" / script), *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {no_weights(folder)}, or set backbone.")
    assert done.stderr.endswith(" to a trained checkpoint.\n")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["talk.wav"]


def test_so_does_python_in_an_installed_package(site: Path, tmp_path: Path) -> None:
    done = start(site, tmp_path, "-c", "import zoo; zoo.load('lst_minitalks_en-de')")
    assert done.stderr.endswith(f"ZooError: {no_weights('lst_minitalks_en-de')}.\n")


@pytest.mark.parametrize("foreign", [False, True], ids=["none", "another package of that name"])
def test_an_installed_package_names_where_a_recipe_is(
    site: Path, tmp_path: Path, foreign: bool
) -> None:
    if foreign:
        package = site / "recipes"
        package.mkdir()
        (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    try:
        done = run(site, tmp_path, "experiment=simulu_minitalks", command="train")
    finally:
        shutil.rmtree(site / "recipes", ignore_errors=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: training.objectives.")
    assert done.stderr.endswith(
        "a training recipe, which only the repository has: clone "
        "https://github.com/simulzoo/simulzoo and run python train.py in it.\n"
    )
    assert done.stderr.count("\n") == 1
