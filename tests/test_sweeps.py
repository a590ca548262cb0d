"""Hydra's sweepers and launchers run jobs of evaluate.py in one folder and one group."""

import json
from pathlib import Path

import pytest
import yaml

from tests.fixtures import processes
from zoo.apps.evaluate.show import without_repeated
from zoo.runs.rows.row import KnobValue, Row, write_rows

ROOT = Path(__file__).resolve().parents[1]
JOB = ["system=replay", "data=recorded", "logger=csv"]  # jobs of a second, without a network
OUTPUTS = ["eins zwei drei vier", "eins zwei", "fünf sechs sieben", "eins zwei drei vier fünf"]


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Recorded logs of one talk, whose outputs have four different scores."""
    paths = []
    for number, text in enumerate(OUTPUTS):
        stream = {
            "index": 0,
            "prediction": text,
            "delays": [1000 * place for place, _ in enumerate(text.split(), start=1)],
            "source": ["talk.wav"],
            "source_length": 5000,
            "reference": "eins zwei drei vier fünf",
        }
        paths.append(tmp_path / f"{number}.log")
        paths[-1].write_text(json.dumps(stream) + "\n")
    return paths


def evaluate(folder: Path, *overrides: str) -> str:
    """Run evaluate.py in ``folder`` and return what it prints."""
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = processes.run(
        ROOT / "evaluate.py", *JOB, *overrides, folder=folder, environment=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_optuna_chooses_by_the_score(tmp_path: Path, logs: list[Path]) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="needs the extra sweeps")
    evaluate(
        tmp_path,
        "hparams_search=optuna",
        "hydra.sweeper.n_trials=4",
        f"system.log=choice({','.join(map(str, logs))})",
        f"hydra.sweep.dir={tmp_path / 'search'}",
    )
    scores = [
        json.loads((tmp_path / "search" / str(trial) / "results.json").read_text())[-1]["scores"]
        for trial in range(4)
    ]
    best = yaml.safe_load((tmp_path / "search" / "optimization_results.yaml").read_text())
    assert best["name"] == "optuna"
    assert best["best_value"] == max(score["BLEU"] for score in scores)
    assert len({score["BLEU"] for score in scores}) > 1


def test_the_output_of_a_job_begins_with_its_overrides(tmp_path: Path, logs: list[Path]) -> None:
    printed = evaluate(
        tmp_path,
        "evaluation.upper_bound=false",  # which Hydra writes as False
        f"system.log={logs[0]},{logs[1]}",
        "--multirun",
    )
    headers = [line for line in printed.splitlines() if line.startswith("job ")]
    assert headers == [f"job {number}: system.log={logs[number]}" for number in (0, 1)]
    assert printed.startswith(headers[0])


def oracle(bleu: float, kind: str = "oracle") -> Row:
    return Row(
        "wait-k",
        KnobValue("k", 3),
        data="minitalks",
        split="tst",
        source_language="en",
        target_language="de",
        scores={"BLEU": bleu},
        signatures={},
        instances="",
        kind=kind,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("folder", "earlier", "job"),
    [
        ("2", {"0": oracle(70.0), "1": oracle(80.0)}, "1"),
        ("2", {"1": oracle(70.0)}, None),  # of other talks
        ("2", {"1": oracle(80.0, "system")}, None),
        ("2", {"3": oracle(80.0)}, None),  # a later job
        ("seed=2", {"1": oracle(80.0)}, None),
    ],
)
def test_oracle_rows_of_an_earlier_job_are_not_printed_again(
    tmp_path: Path, folder: str, earlier: dict[str, Row], job: str | None
) -> None:
    for name, row in earlier.items():
        (tmp_path / name).mkdir()
        write_rows([row], tmp_path / name / "results.json")
    (tmp_path / "0").mkdir(exist_ok=True)  # a job without results
    rows = [oracle(50.0, "system"), oracle(80.0)]
    kept = rows[:1] if job else rows
    assert without_repeated(rows, tmp_path / folder) == (kept, job)


@pytest.mark.parametrize("launcher", ["submitit_local", "joblib"])
def test_the_jobs_of_a_launcher_share_folder_and_group(
    tmp_path: Path, logs: list[Path], launcher: str
) -> None:
    plugin = "submitit" if launcher.startswith("submitit") else "joblib"
    pytest.importorskip(f"hydra_plugins.hydra_{plugin}_launcher", reason="needs the extra sweeps")
    evaluate(tmp_path, f"launcher={launcher}", f"system.log={logs[0]}", "seed=0,1")
    (folder,) = (tmp_path / "outputs" / "evaluate").iterdir()
    cards = [json.loads((folder / job / "run.json").read_text()) for job in ("0", "1")]
    assert [card["group"] for card in cards] == [folder.name] * 2
    assert len({card["id"] for card in cards}) == 2


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("optimized_metric=chrF", "Unknown optimized_metric 'chrF'; choose one of: BLEU."),
        ("hydra.sweeper.trials=4", "Unknown key 'hydra.sweeper.trials'; choose one of: hydra."),
        (
            "hydra.run={folder:here}",
            "Unknown key 'hydra.run.folder'; choose one of: hydra.",
        ),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, override: str, sentence: str) -> None:
    done = processes.run(ROOT / "train.py", override, "logger=csv", folder=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
