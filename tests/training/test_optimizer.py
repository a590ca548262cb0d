"""A group of parameters that rests is as it was, whatever its gradients are."""

from pathlib import Path

import lightning
import pytest
import torch
from torch.optim import AdamW

from tests.training.tiny import Squares, Tiny, pretrained
from zoo.history.keep_all import KeepAll
from zoo.policies.wait_k import WaitK
from zoo.systems.base import StreamingSystem
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.module import Training
from zoo.training.optimizer import RestingAdamW
from zoo.training.settings import TrainingSettings

RATES = [0.1, 0.1, 0.0, 0.0, 0.1]  # of the second group; the first one always moves


def weights_after_steps(kind: type[AdamW], rests: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Both parameters after random steps; ``rests``: zero gradients, not None, at rate 0."""
    first, second = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))
    optimizer = kind([{"params": [first]}, {"params": [second]}], lr=0.1, weight_decay=0.1)
    random = torch.Generator().manual_seed(0)
    for rate in RATES:
        gradients = torch.randn(5, generator=random)
        first.grad, second.grad = gradients[:3], gradients[3:]
        if not rate:
            second.grad = torch.zeros(2) if rests else None
        optimizer.param_groups[1]["lr"] = rate if rests else 0.1
        optimizer.step()
    return first.detach(), second.detach()


def test_zeros_at_rest_are_no_gradients() -> None:
    expected = weights_after_steps(AdamW, rests=False)
    for found, wanted in zip(weights_after_steps(RestingAdamW, rests=True), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    assert not torch.allclose(weights_after_steps(AdamW, rests=True)[1], expected[1], atol=1e-3)


def test_the_optimizer_of_a_training_has_its_settings(tmp_path: Path) -> None:
    system = StreamingSystem(
        name="tiny",
        backbone=Tiny(pretrained(tmp_path)),
        policy=WaitK(k=1),
        history=KeepAll(),
        source_language="en",
        target_language="de",
        chunk_seconds=1.0,
    )
    stage = Stage(objective="squares", steps=1, learning_rate=0.01, batch_seconds=4.0)
    settings = TrainingSettings(
        curriculum=Curriculum({"only": stage}),
        objectives={"squares": Squares()},
        betas=(0.5, 0.6),
        epsilon=1e-3,
        weight_decay=0.2,
    )
    training = Training(settings)
    training.setup(system, [], torch.device("cpu"))
    system.trainer = lightning.Trainer(accelerator="cpu", max_steps=1, logger=False)
    training.prepare(system)
    (group,) = training.optimizers(system)["optimizer"].param_groups
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.5, 0.6), 1e-3, 0.2)


def test_a_closure_is_called_once_with_gradients() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = RestingAdamW([weight], lr=0.5, weight_decay=0.0)

    def closure() -> float:
        loss = weight.sum()
        loss.backward()
        return float(loss.detach())

    assert optimizer.step(closure) == 1.0
    assert weight.item() == pytest.approx(0.5)  # Adam's first step is the learning rate
