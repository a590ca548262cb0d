"""zoo/metrics/comet/score.py in .venv-comet, on tiny random models, against the library itself.

A process of that environment takes seconds to start, so all models are checked in one process and
scored in another.
"""

import json
import os
import pickle
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.fixtures.comet_environment import REAL, ROOT
from zoo.base.errors import ZooError
from zoo.metrics.comet.scorer import SCRIPT, Comet, Text

pytestmark = pytest.mark.skipif(not REAL.is_file(), reason="there is no .venv-comet: make comet")

MAKER = ROOT / "tests" / "fixtures" / "comet_checkpoint.py"
CLASSES = {  # and whether their models read references
    "regression_metric": True,
    "referenceless_regression_metric": False,
    "unified_metric": False,  # as in CometKiwi
    "xcomet_metric": True,
}
SAME = ("with_state", "moved")  # variants of the regression model with the same scores
TEXTS = [
    Text("the cat sat", "die Katze", "die Katze sitzt"),
    Text("a dog", "", "ein Hund"),
    Text("", "etwas", "nichts"),
    Text("many words " * 30, "viele Worte " * 30, "sehr viele Worte " * 20),  # are truncated
    *(Text("a" * n, "b" * n, "c" * (20 - n)) for n in range(1, 18)),  # more than one batch
]


class Executed:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> object:
        return os.system, (self.command,)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all models, good and bad."""
    folder = tmp_path_factory.mktemp("models")
    samples = [{"src": text.source, "mt": text.hypothesis, "ref": text.reference} for text in TEXTS]
    stdin = "\n".join(map(json.dumps, samples))
    command = [REAL, "-I", MAKER, folder]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    (folder / "no_hparams" / "hparams.yaml").unlink()
    (folder / "no_checkpoint" / "checkpoints" / "model.ckpt").unlink()
    (folder / "other_class" / "hparams.yaml").write_text("class_identifier: another\n")
    attack = Executed(f"touch {folder / 'executed'}")
    put_pickle(folder / "executes" / "checkpoints" / "model.ckpt", {"state_dict": attack})
    (folder / "legacy" / "checkpoints" / "model.ckpt").write_bytes(pickle.dumps(attack))
    return folder


def put_pickle(path: Path, content: object) -> None:
    """Replace the pickle in a checkpoint."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in files if name.endswith("data.pkl"))
    files[name] = pickle.dumps(content, protocol=2)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for part, data in files.items():
            archive.writestr(part, data)


@pytest.fixture(scope="module")
def answers(models: Path) -> dict[str, dict[str, str]]:
    """What ``score.py check`` answers for each model, by its name, without a network."""
    cached = models / "hub" / "models--owner--metric"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("a" * 40)
    (cached / "snapshots").mkdir()
    (cached / "snapshots" / ("a" * 40)).symlink_to(models / "moved")
    folders = [path for path in models.iterdir() if path.is_dir() and path.name != "hub"]
    names = [*map(str, folders), "owner/metric", "Unbabel/wmt22-comet-da", "nowhere"]
    done = subprocess.run(
        [REAL, "-I", SCRIPT, "check", *names],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(models)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return {Path(line["model"]).name: line for line in lines}


@pytest.fixture(scope="module")
def scores(models: Path) -> dict[str, list[float]]:
    """Scores of all good models through the caller, by the name of the folder."""
    names = [str(models / name) for name in (*CLASSES, *SAME)]
    comet = Comet.available(names, python=str(REAL), cache=models.parent / "cache")
    found = comet.score(TEXTS)
    return {model.removeprefix("COMET_"): values for model, values in found.items()}


@pytest.mark.parametrize("name", CLASSES)
def test_scores_equal_those_of_the_library(
    name: str, models: Path, scores: dict[str, list[float]]
) -> None:
    expected = json.loads((models / "scores.json").read_text())[name]
    assert len(set(expected)) > len(TEXTS) // 2  # the scores of the random model differ
    assert scores[name] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", SAME)
def test_training_state_and_the_place_of_the_encoder_do_not_matter(
    name: str, scores: dict[str, list[float]]
) -> None:
    assert scores[name] == scores["regression_metric"]


def test_the_class_decides_about_references(answers: dict[str, dict[str, str]]) -> None:
    assert {name: answers[name]["reference"] for name in CLASSES} == CLASSES


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("executes", "is refused: it contains posix.system."),
        ("legacy", "is refused or damaged"),
        ("no_hparams", "hparams.yaml is missing or damaged"),
        ("no_checkpoint", "must have one .ckpt file, not 0"),
        ("other_class", "has the class 'another'; known are: regression_metric"),
        ("hub_encoder", "Its encoder xlm-roberta-large is neither a folder nor in the local cache"),
        ("wmt22-comet-da", "is not in the local cache, and HF_HUB_OFFLINE forbids downloads."),
        ("nowhere", "nowhere is neither a folder nor a model of the hub"),
    ],
)
def test_a_bad_model_is_named(name: str, message: str, answers: dict[str, dict[str, str]]) -> None:
    assert message in answers[name]["error"]


def test_a_checkpoint_never_runs_code(models: Path, answers: dict[str, dict[str, str]]) -> None:
    assert {"executes", "legacy"} <= set(answers)
    assert not (models / "executed").exists()


def test_a_model_in_the_cache_of_the_hub_needs_no_network(
    answers: dict[str, dict[str, str]],
) -> None:
    assert answers["metric"]["fingerprint"] == answers["moved"]["fingerprint"]


def test_missing_weights_are_an_error_and_not_random(models: Path, tmp_path: Path) -> None:
    name = str(models / "incomplete")
    comet = Comet.available([name], python=str(REAL), cache=tmp_path)
    with pytest.raises(ZooError, match="the checkpoint has no weights estimator"):
        comet.score(TEXTS)
