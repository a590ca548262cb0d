"""The Trainer of trainings and evaluations: the same devices, and refused options."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from zoo.base.errors import ZooError
from zoo.base.machine.cores import usable_cores
from zoo.config import build, compose
from zoo.evaluation.independent_ranks import IndependentRanks, evaluation_trainer
from zoo.systems.lightning.trainer import count_ranks, is_single, on_devices
from zoo.training.trainer import make_trainer

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "3",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "WORLD_SIZE": "4",
}


@pytest.mark.parametrize(
    ("options", "accelerator", "devices"),
    [
        ({"accelerator": "cpu"}, "cpu", 1),
        ({"accelerator": "cuda:1", "devices": 1}, "cuda", [1]),
        ({"accelerator": "cuda", "devices": [0, 2]}, "cuda", [0, 2]),
    ],
)
def test_a_device_with_an_index_is_one_device(
    options: dict[str, Any], accelerator: str, devices: object
) -> None:
    given = on_devices(options)
    assert (given["accelerator"], given["devices"]) == (accelerator, devices)
    assert is_single(given) == (devices != [0, 2])


def test_a_launcher_determines_the_number_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    given = on_devices({"accelerator": "cpu", "devices": 1})
    assert (given["devices"], given["num_nodes"], is_single(given)) == (2, 2, False)
    given = on_devices({"accelerator": "cpu", "devices": 4})
    assert (given["devices"], given["num_nodes"]) == (4, 1)

    trained = make_trainer({"accelerator": "cpu"})
    assert (trained.num_devices, trained.num_nodes) == (2, 2)
    evaluated = evaluation_trainer({"accelerator": "cpu"}, [])
    assert (evaluated.num_devices, evaluated.num_nodes) == (2, 2)
    assert isinstance(evaluated.strategy, IndependentRanks)


@pytest.mark.parametrize("create", [evaluation_trainer, make_trainer])
@pytest.mark.parametrize("devices", [1000, "1000"])
def test_a_cpu_has_no_more_devices_than_cores(
    devices: object, create: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"accelerator": "cpu", "devices": devices, "callbacks": []}
    sentence = rf"trainer\.devices=1000 .* may use {usable_cores()} cores; choose at most \d+\."
    with pytest.raises(ZooError, match=sentence):
        create(given) if create is make_trainer else create(given, [])
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    with pytest.raises(ZooError, match="use 1 cores; choose at most 2"):
        make_trainer({"accelerator": "cpu", "devices": 3})
    assert make_trainer({"accelerator": "cpu", "devices": 2})


@pytest.mark.parametrize(
    "option", ["logger=true", "enable_checkpointing=true", "enable_progress_bar=false"]
)
def test_an_evaluation_refuses_what_it_sets_itself(option: str) -> None:
    cfg = compose("evaluate", ["device=cpu", f"trainer.{option}"])
    name = option.partition("=")[0]
    with pytest.raises(ZooError, match=rf"trainer\.{name} is set by the evaluation; "):
        evaluation_trainer(build(cfg.trainer).keywords, [])
    assert evaluation_trainer(build(compose("evaluate", ["device=cpu"]).trainer).keywords, [])


@pytest.mark.parametrize(("fast", "precision"), [(True, "bf16-mixed"), (False, "32-true")])
def test_the_precision_is_half_where_that_is_fast(
    monkeypatch: pytest.MonkeyPatch, fast: bool, precision: str
) -> None:
    features = {"avx512_bf16": fast, "avx2": True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    assert compose("train", ["device=cpu"]).trainer.precision == precision
    assert compose("evaluate", ["device=cpu"]).trainer.precision == "32-true"


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1),
        ({"devices": 4, "num_nodes": 2}, 8),
        ({"devices": "3"}, 3),
        ({"devices": [0, 2], "accelerator": "cuda"}, 2),
        ({"devices": "0,2", "accelerator": "cuda"}, 2),
        ({"devices": "auto", "accelerator": "cpu"}, 1),
        ({"accelerator": "cuda:1"}, 1),
    ],
)
def test_ranks_are_counted_before_there_is_a_trainer(options: dict[str, Any], count: int) -> None:
    assert count_ranks(options) == count
