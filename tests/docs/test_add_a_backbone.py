"""The backbone of docs/add_a_backbone.md trains, exports, streams from outside the repository."""

import shlex
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, blocks
from tests.fixtures import processes

PAGE = ROOT / "docs" / "add_a_backbone.md"
QUICK = ["device=cpu", "logger=csv", "threads=1"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the package of the page: one class file, one YAML file."""
    [source] = [block for block in blocks(PAGE, "python") if "class WordSpotter" in block]
    [choice] = blocks(PAGE, "yaml")
    (tmp_path / "my_zoo" / "conf" / "backbone").mkdir(parents=True)
    (tmp_path / "my_zoo" / "word_spotter.py").write_text(source)
    (tmp_path / "my_zoo" / "conf" / "backbone" / "word_spotter.yaml").write_text(choice)
    return tmp_path


def import_path(package: Path) -> dict[str, str]:
    """The environment in which Python finds the zoo and the package."""
    return {"PYTHONPATH": f"{package}:{ROOT}"}


def run(package: Path, script: str, *overrides: str) -> str:
    """The output of a command in the package's folder."""
    given = (*overrides, *QUICK)
    done = processes.run(ROOT / script, *given, folder=package, environment=import_path(package))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "val_dataloader" not in done.stderr
    assert "logging interval" not in done.stderr
    return done.stdout


def test_a_backbone_from_outside_trains_and_streams(package: Path) -> None:
    printed = run(
        package,
        "train.py",
        "--config-dir=my_zoo/conf",
        "experiment=teacher_forcing",
        "backbone=word_spotter",
        "training.train_talks=2",
        "training.dev_talks=1",
        "training.curriculum.stages.translation.steps=3",
        "training.data_workers=0",
        f"hydra.run.dir={package / 'run'}",
    )
    export = package / "run" / "export"
    assert f"backbone.name={export}" in printed
    commands = [line for line in printed.splitlines() if line.startswith("evaluate: ")]
    command = commands[-1]  # evaluates the last weights; the one before evaluates the best
    _, _, script, *arguments = shlex.split(command)
    assert arguments[0] == f"--config-dir={package / 'my_zoo' / 'conf'}"
    results = run(package, script, *arguments, "evaluation.talks=1")
    assert "word_spotter" in results
    assert "BLEU" in results

    loaded = "\n".join(
        [
            "import zoo",
            f"system = zoo.load({str(export)!r}, trusted_packages=['my_zoo'])",
            "system.configure_model()",
            "print(type(system.backbone).__module__)",
        ]
    )
    (package / "load.py").write_text(loaded)
    done = processes.run(package / "load.py", folder=package, environment=import_path(package))
    assert done.stdout.split() == ["my_zoo.word_spotter"], done.stderr[-3000:]
