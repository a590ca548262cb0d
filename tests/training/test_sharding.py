"""DDP, FSDP2 and ZeRO on two CPU processes take the steps of one process, also when resumed."""

import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

from tests.fixtures import processes
from tests.training import sharded_job
from tests.training.sharded_job import (
    EVALUATED,
    EVERY,
    EXPERIMENTS,
    HALF,
    MIDDLE,
    STEP,
    STEPS,
    STRATEGIES,
    TALKS,
    UNIFORM,
)
from zoo.config import build
from zoo.runs.run import Run
from zoo.training.job import trained_tokenizer

NAMES = [name for name in STRATEGIES if find_spec("deepspeed") or "deepspeed" not in name]
LAST = sum(STEPS.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings of one process, in ``one...``, and of two processes by name."""
    folder = tmp_path_factory.mktemp("sharding")
    for experiment in EXPERIMENTS:
        cfg = sharded_job.configuration(experiment, "training.vocabulary_size=400")
        run = cast("Run", SimpleNamespace(folder=folder / experiment))
        run.folder.mkdir()
        trained_tokenizer(run, cfg, sharded_job.talks("train"), build(cfg.training))

    job = processes.ROOT / "tests" / "training" / "sharded_job.py"
    ranks = processes.launch(job, folder, *NAMES, folder=processes.ROOT, ranks=2)
    even, uneven = (
        sharded_job.configuration(name, f"backbone.tokenizer={folder / name / 'tokenizer'}")
        for name in EXPERIMENTS
    )
    one: dict[str, Any] = {"accumulate_grad_batches": 2}  # the batches of both processes
    found = {
        "one": sharded_job.train(even, folder / "one", one, every=EVERY),
        "one_uniform": sharded_job.train(even, folder / "one_uniform", one, steps=UNIFORM),
        "one_uneven": sharded_job.train(uneven, folder / "one_uneven", one),
        "one_half": sharded_job.train(even, folder / "one_half", one | HALF),
    }
    for name, recorded in found.items():
        (folder / name / "facts.json").write_text(json.dumps(recorded))
    for rank in ranks:
        output = rank.communicate()[0]
        assert rank.returncode == 0, output[-3000:]
    return folder


def facts(folder: Path, name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads((folder / name / "facts.json").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_equal_one(folder: Path, name: str) -> None:
    wanted, found = facts(folder, "one"), facts(folder, name)["whole"]
    assert found["losses"] == pytest.approx(wanted["losses"], abs=1e-4)
    assert sorted(found["losses"]) == [str(step) for step in range(LAST)]
    # the first moments of a step are those of the clipped gradients
    assert found["norms"] == pytest.approx(wanted["norms"], rel=1e-4)
    assert wanted["norms"]["1"] == pytest.approx((1 - 0.9) * sharded_job.CLIPPED, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_equals_an_uninterrupted_run(folder: Path, name: str) -> None:
    whole, resumed = (facts(folder, name)[run] for run in ("whole", "resumed"))
    assert sorted(resumed["losses"]) == [str(step) for step in range(MIDDLE, LAST)]
    for step, loss in resumed["losses"].items():
        assert whole["losses"][step] == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("run", ["whole", "resumed"])
def test_the_export_has_the_weights_of_all_ranks(folder: Path, name: str, run: str) -> None:
    wanted, found = (
        load_file(folder / part / "export" / "model.safetensors")
        for part in ("one", f"{name}/{run}")
    )
    assert found.keys() == wanted.keys()
    for key, weight in wanted.items():
        torch.testing.assert_close(found[key], weight, rtol=0, atol=STEP / 20, msg=key)


@pytest.mark.parametrize("name", sorted({*EVALUATED} & {*NAMES}))
def test_sharded_weights_are_gathered_for_an_evaluation(folder: Path, name: str) -> None:
    wanted, found = facts(folder, "one"), facts(folder, name)["whole"]
    streamed = dict(found["talks"])
    assert streamed == pytest.approx(dict(wanted["talks"]), rel=1e-5)
    assert len(streamed) == len(found["talks"]) == TALKS * (LAST // EVERY)  # one rank each
    assert sorted(found["development"]) == ["2", "4"]
    whole_weights = facts(folder, "auto")["whole"]["development"]  # of the same ranks
    assert found["development"] == pytest.approx(whole_weights, abs=1e-4)


@pytest.mark.parametrize("name", sorted({*EVALUATED} & {*NAMES}))
def test_no_rank_evaluates_if_one_lacks_memory(folder: Path, name: str) -> None:
    found = facts(folder, name)["resumed"]
    assert (found["talks"], found["development"]) == ([], {})


def test_ranks_may_run_a_layer_unequally_often(folder: Path) -> None:
    wanted, found = facts(folder, "one_uneven"), facts(folder, "uneven")
    assert found["losses"] == pytest.approx(wanted["losses"], abs=1e-4)
    assert found["norms"] == pytest.approx(wanted["norms"], rel=1e-4)


def test_a_later_stage_trains_layers_that_the_first_froze_in_half_precision(folder: Path) -> None:
    wanted, found = facts(folder, "one_half"), facts(folder, "half")
    assert found["losses"] == pytest.approx(wanted["losses"], rel=0.02)
    assert found["norms"] == pytest.approx(wanted["norms"], rel=0.1)


def test_ddp_searches_for_unused_parameters_only_if_there_are_some(folder: Path) -> None:
    assert facts(folder, "auto")["whole"]["searched"] == [True] * LAST
    found, wanted = facts(folder, "uniform"), facts(folder, "one_uniform")
    assert found["searched"] == [False] * UNIFORM["segments"]  # as seen after each step
    assert found["losses"] == pytest.approx(wanted["losses"], abs=1e-4)
