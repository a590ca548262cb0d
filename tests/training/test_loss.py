"""The gradients of a step are those of the mean loss over all its tokens."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from zoo.backbones.objective import Objective
from zoo.data.robust_segments import RobustSegmentConfig
from zoo.training.batches import TrainingBatch
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.module import Training
from zoo.training.settings import TrainingSettings

VALUES = torch.tensor([1.0, 2.0, 4.0, 9.0])
STAGE = Stage(objective="distance", steps=9, learning_rate=0.1, batch_seconds=1)


class Distance(Objective):
    """Mean squared distance of values from the backbone's only weight."""

    def __init__(self) -> None:
        super().__init__(RobustSegmentConfig())

    def batch(self, examples: Any) -> Tensor:
        return torch.as_tensor(examples)

    def losses(self, backbone: Any, batch: Tensor) -> dict[str, Tensor]:
        return {"loss": (batch - backbone.weight).square().mean()}


class Logger:
    """Keeps what it logs."""

    def __init__(self) -> None:
        self.logged: dict[str, float] = {}

    def log_metrics(self, values: dict[str, float], step: int) -> None:
        self.logged |= values


def gradient(ranks: list[list[tuple[Tensor, int]]], log: Logger | None = None) -> float:
    """Return the gradient of the weight: the mean over the ranks and the batches of each rank.

    Args:
        ranks: Values and tokens of each batch of each rank.
        log: Logger of the losses.
    """
    parts = len(ranks[0])
    tokens = [sum(count for _, count in batches) for batches in ranks]
    weight = nn.Parameter(torch.tensor(3.0))
    for batches, own in zip(ranks, tokens, strict=True):

        def reduce(value: Tensor, reduce_op: str) -> Tensor:
            return torch.tensor(float(sum(tokens))) if reduce_op == "sum" else value

        strategy = SimpleNamespace(reduce=reduce)
        system: Any = SimpleNamespace(
            trainer=SimpleNamespace(
                accumulate_grad_batches=parts, world_size=len(ranks), strategy=strategy
            ),
            backbone=SimpleNamespace(weight=weight),
            device="cpu",
            global_step=0,
            log=lambda *given, **options: None,
            loggers=[log] if log else [],
        )
        settings = TrainingSettings(
            curriculum=Curriculum({"only": STAGE}), objectives={"distance": Distance()}
        )
        plan = Training(settings)
        for index, (values, count) in enumerate(batches):
            batch = TrainingBatch(values, count, len(values), 1.0, step_tokens=own)
            (plan.loss(system, batch, index) / parts / len(ranks)).backward()
    assert weight.grad is not None
    return float(weight.grad)


@pytest.mark.parametrize(
    "ranks", [[[[0, 1, 2, 3]]], [[[0], [1, 2, 3]]], [[[0, 1, 2]], [[3]]], [[[0], [1]], [[2], [3]]]]
)
def test_gradients_do_not_depend_on_how_a_step_is_divided(ranks: list[list[list[int]]]) -> None:
    batches = [[(VALUES[places], len(places)) for places in rank] for rank in ranks]
    assert gradient(batches) == pytest.approx(float(2 * (3 - VALUES).mean()))


def test_a_batch_without_tokens_has_no_gradient() -> None:
    batches = [(VALUES, 4), (VALUES[:1], 0)]
    assert gradient([batches]) == pytest.approx(float(2 * (3 - VALUES).mean()))


def test_the_logged_loss_is_that_of_the_whole_step() -> None:
    log = Logger()
    gradient([[(VALUES[:1], 1), (VALUES[1:], 3)]], log)
    assert log.logged["train/only/loss"] == pytest.approx(float((VALUES - 3).square().mean()))
