"""The launcher of a process: the same rule as Lightning's, and one sentence for what is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lightning.pytorch.plugins.environments import LightningEnvironment, SLURMEnvironment

from zoo.base.errors import ZooError
from zoo.base.machine.launcher import Place, place
from zoo.systems.lightning.trainer import create_trainer

ROOT = Path(__file__).parents[3]
TORCHRUN = {"TORCHELASTIC_RUN_ID": "a", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "4"}
TORCHRUN |= {"RANK": "2", "LOCAL_RANK": "0", "GROUP_RANK": "1"}
TASK = {"SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "2"}
TASK |= {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_JOB_NAME": "python"}
TASK |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
BATCH = {name: value for name, value in TASK.items() if name != "SLURM_STEP_ID"}

PLACES: list[tuple[dict[str, str], Place]] = [
    ({}, Place("other", main=True)),
    ({"RANK": "0", "LOCAL_RANK": "0"}, Place("other", main=True)),
    ({"RANK": "1"}, Place("other", main=False)),
    ({"LOCAL_RANK": "1"}, Place("other", main=False)),
    ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, Place("other", main=False)),
    (TORCHRUN, Place("torchrun", main=False, per_node=2, nodes=2)),
    ({**TORCHRUN, **TASK, "RANK": "0"}, Place("torchrun", main=True, per_node=2, nodes=2)),
    (TASK, Place("srun", main=True, per_node=2, nodes=2)),
    ({**TASK, "SLURM_PROCID": "3"}, Place("srun", main=False, per_node=2, nodes=2)),
    ({**TASK, "SLURM_NTASKS": "1"}, Place("srun", main=True)),
    # srun --pty bash in an allocation of four tasks
    ({**TASK, "SLURM_JOB_NAME": "bash"}, Place("other", main=True)),
    ({**TASK, "SLURM_PTY_PORT": "4242"}, Place("other", main=True)),
    ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, Place("other", main=True)),
    # the script of a batch job, and a shell of salloc
    (BATCH, Place("other", main=True)),
    ({"SLURM_NTASKS": "4", "SLURM_JOB_NAME": "mine"}, Place("other", main=True)),
]


def surround(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name in {*TORCHRUN, *TASK, "NODE_RANK", "SLURM_PTY_PORT"}:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(("environment", "expected"), PLACES)
def test_the_place_of_a_process(environment: dict[str, str], expected: Place) -> None:
    assert place(environment) == expected


@pytest.mark.parametrize(
    ("environment", "expected"), [row for row in PLACES if "SLURM_NTASKS" in row[0]]
)
def test_lightning_follows_the_same_rule(
    environment: dict[str, str], expected: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    surround(monkeypatch, environment)
    trainer = create_trainer({"accelerator": "cpu", "devices": 1, "logger": False}, [])
    found = trainer._accelerator_connector.cluster_environment
    assert isinstance(found, SLURMEnvironment) == (expected.launcher == "srun")
    assert isinstance(found, LightningEnvironment) == (expected.launcher == "other")


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"RANK": "abc"}, "RANK must be a whole number from 0 to "),
        ({"RANK": "-1"}, "RANK must be a whole number from 0 to "),
        ({"RANK": "1e9"}, "RANK must be"),
        ({"RANK": ""}, "RANK must be"),
        ({"RANK": "\u0663"}, "RANK must be"),
        ({"RANK": "9" * 5000}, "RANK must be"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK must be a whole number from 0 to 1, not '2'"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE must be a whole number from 1 to "),
        ({"LOCAL_RANK": "None"}, "LOCAL_RANK must be"),
        ({"NODE_RANK": "x"}, "NODE_RANK must be"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT must be a whole number from 0 to 65535"),
        ({"MASTER_PORT": "65536"}, "MASTER_PORT must be"),
        ({"TORCHELASTIC_RUN_ID": "a"}, "WORLD_SIZE is missing"),
        ({**TORCHRUN, "RANK": "4"}, "RANK must be a whole number from 0 to 3"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE must be"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "3"}, "WORLD_SIZE=4 is no multiple"),
        ({**TASK, "SLURM_NNODES": "0"}, "SLURM_NNODES must be"),
        ({**TASK, "SLURM_NNODES": "3"}, "started 4 tasks on 3 nodes with 2 per node"),
        ({**TASK, "SLURM_NTASKS": "many"}, "SLURM_NTASKS must be"),
        ({**TASK, "SLURM_PROCID": "4"}, "SLURM_PROCID must be a whole number from 0 to 3"),
        ({**TASK, "SLURM_JOB_ID": "../x"}, "SLURM_JOB_ID must be"),
        ({**TASK, "SLURM_STEP_ID": "batch"}, "SLURM_STEP_ID must be"),
        ({**TASK, "SLURM_NTASKS_PER_NODE": "2(x2)"}, "SLURM_NTASKS_PER_NODE must be"),
        ({"SLURM_NTASKS": "2", "SLURM_PROCID": "1"}, "SLURM_LOCALID is missing"),
        (
            {name: value for name, value in TASK.items() if name != "SLURM_NTASKS_PER_NODE"},
            "without --ntasks-per-node; write srun --ntasks=4 --ntasks-per-node=2",
        ),
    ],
)
def test_impossible_variables(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(ZooError) as raised:
        place(environment)
    assert sentence in str(raised.value)
    assert len(str(raised.value)) < 500


def test_wrong_variables_in_python_are_an_error_of_one_sentence() -> None:
    """Lightning reads them when it is imported, so a fresh process is needed."""
    code = """
import zoo
from zoo.base.errors import ZooError
for name in ("load", "evaluate", "TalksDataModule"):
    try:
        getattr(zoo, name)
    except ZooError as error:
        print(error)
"""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "RANK": "abc", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.count("RANK must be a whole number from 0 to ") == 3
