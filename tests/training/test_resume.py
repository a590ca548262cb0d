"""A training that is killed and resumed takes the same steps as an uninterrupted training."""

import signal
from pathlib import Path

import pytest
import torch

from tests.fixtures.shapes import INFINISST
from tests.training.jobs import losses, train, train_and_kill

STEPS = {"recognition": 8, "translation": 12, "long_segments": 10}
FEW = {"recognition": 5, "translation": 8, "long_segments": 4}
TINY = [
    "experiment=infinisst_minitalks",
    "logger=csv",
    "threads=1",
    "device=cpu",
    "training.log_every_steps=1",
    "training.train_talks=2",
    "training.dev_talks=1",
    "training.save_every_steps=3",
    "training.evaluate_every_steps=1000",
    "training.evaluate_last=false",
    *INFINISST,
    *(f"training.curriculum.stages.{name}.batch_seconds=12" for name in STEPS),
    *(f"training.curriculum.stages.{name}.warmup_steps=2" for name in STEPS),
]


def of_steps(steps: dict[str, int]) -> list[str]:
    """Overrides of a training with so many steps per stage."""
    stages = "training.curriculum.stages"
    return [*TINY, *(f"{stages}.{name}.steps={number}" for name, number in steps.items())]


MONITOR = (
    "trainer.callbacks=[{_target_: lightning.pytorch.callbacks.ThroughputMonitor, batch_size_fn: "
    "{_target_: pkgutil.resolve_name, name: zoo.training.batches.examples_of}}]"
)


def test_a_terminated_training_is_saved_at_its_last_step(tmp_path: Path) -> None:
    """SIGHUP of a closed terminal; the training has one of Lightning's callbacks by an override."""
    more = ["training.save_every_steps=1000", MONITOR, "trainer.log_every_n_steps=5"]
    seldom = [*of_steps(STEPS), *more]
    folder = tmp_path / "terminated"
    train_and_kill(
        folder, seldom, stages=STEPS, step=10, number=signal.SIGHUP, exit_code=128 + signal.SIGHUP
    )
    checkpoint = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    last_logged = max(losses(folder, STEPS))
    assert checkpoint["global_step"] == last_logged + 1

    train(folder, [*seldom, f"resume={folder}"])
    assert sorted(losses(folder, STEPS)) == list(range(sum(STEPS.values())))
    names = (folder / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"train/samples", "throughput/tokens_per_second"} <= set(names)


def test_killed_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    given = of_steps(FEW)
    train(whole, given)
    expected = losses(whole, FEW)
    assert sorted(expected) == list(range(sum(FEW.values())))

    train_and_kill(broken, given, stages=FEW, step=7)
    assert max(losses(broken, FEW)) < max(expected)

    train(broken, [*given, f"resume={broken}"])
    resumed = losses(broken, FEW)
    assert sorted(resumed) == sorted(expected)
    for step, loss in expected.items():
        assert resumed[step] == pytest.approx(loss, abs=1e-5), f"step {step}"
    assert (broken / "export" / "model.safetensors").is_file()
