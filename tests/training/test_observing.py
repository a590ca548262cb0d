"""What a training logs besides its loss: throughput, gradients, and the development loss."""

from types import SimpleNamespace
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch import Tensor, nn

from tests.training.test_schedule import Numbers, lognormal
from zoo.base.errors import ZooError
from zoo.training.batches import StepLoader, TrainingBatch
from zoo.training.callbacks.averaging import (
    averaged_weights,
    check_averaging,
    keep_averaged_weights,
)
from zoo.training.callbacks.throughput import Throughput, summary
from zoo.training.curriculum import Curriculum, EvaluationSteps, Stage
from zoo.training.development_loss import DevelopmentLoss
from zoo.training.fsdp2 import FSDP2

STAGE = Stage(objective="number", steps=9, learning_rate=0.1, batch_seconds=20)


class Logger(lightning.pytorch.loggers.Logger):
    """Keeps what it logs, by step."""

    name = version = ""

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[int, dict[str, float]] = {}

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.logged.setdefault(step or 0, {}).update(metrics)

    def log_hyperparams(self, params: Any) -> None:
        """Ignore hyperparameters."""


class Line(lightning.LightningModule):
    """A weight whose gradient is the mean of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def training_step(self, batch: TrainingBatch, batch_idx: int) -> Tensor:
        return (self.weight @ torch.tensor([3.0, 4.0])) * batch.content.mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_throughput_counts_what_the_batches_have(caplog: pytest.LogCaptureFixture) -> None:
    batches = [
        TrainingBatch(torch.full((2,), 2.0), tokens=10 * n, examples=2, seconds=1.5)
        for n in range(1, 9)
    ]
    loader: Any = torch.utils.data.DataLoader(batches, batch_size=None)  # type: ignore[arg-type]
    logger, throughput = Logger(), Throughput(every_steps=2)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=4,
        accumulate_grad_batches=2,
        callbacks=[throughput],
        logger=logger,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with caplog.at_level("INFO", logger="zoo"):
        trainer.fit(Line(), StepLoader(loader, 2))
    assert {2, 4} <= set(logger.logged)
    for step, tokens in ((2, 100), (4, 260)):
        values = {
            name.removeprefix("throughput/"): value
            for name, value in logger.logged[step].items()
            if name.startswith("throughput/")
        }
        duration = 2 * values["step_seconds"]
        assert values["tokens_per_second"] * duration == pytest.approx(tokens, rel=1e-5)
        assert values["audio_seconds_per_second"] * duration == pytest.approx(6, rel=1e-5)
        assert 0 <= values["data_wait_share"] < 1
        assert values["gradient_norm"] == pytest.approx(10)
        assert values["peak_memory_gib"] > 0
        assert "mfu" not in values
    assert summary(throughput.latest) in caplog.text


def test_evaluations_and_exports_have_the_averaged_weights() -> None:
    """The weight falls by 0.6 in each step; an average of decay 0.5 lags behind."""
    seen: list[tuple[float, float]] = []

    class Look(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, *given: Any) -> None:
            before = float(module.weight[0].detach())
            with averaged_weights(trainer, module):
                seen.append((before, float(module.weight[0].detach())))
            assert float(module.weight[0].detach()) == before

    batch = TrainingBatch(torch.full((2,), 2.0), tokens=1, examples=2, seconds=1.0)
    loader: Any = torch.utils.data.DataLoader([batch] * 3, batch_size=None)  # type: ignore[list-item]
    line = Line()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=3,
        callbacks=[EMAWeightAveraging(decay=0.5), Look()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(line, StepLoader(loader, 1))
    assert [round(weight, 3) for weight, _ in seen] == [-0.6, -1.2, -1.8]
    averages = [average for _, average in seen]
    assert all(average > weight for weight, average in seen[1:])
    keep_averaged_weights(trainer, line)
    assert float(line.weight[0].detach()) == pytest.approx(averages[-1])


def test_sharded_weights_are_not_averaged() -> None:
    trainer: Any = SimpleNamespace(callbacks=[EMAWeightAveraging()], strategy=FSDP2())
    with pytest.raises(ZooError, match="cannot be averaged"):
        check_averaging(trainer)


def test_throughput_refuses_an_interval_of_zero() -> None:
    with pytest.raises(ZooError, match="every_steps"):
        Throughput(every_steps=0)


class Number:
    """An objective whose loss is the mean of the numbers."""

    def batch(self, examples: Any) -> Tensor:
        return torch.tensor([float(one.number) for one in examples])

    def tokens(self, batch: Tensor) -> int:
        return len(batch)

    def losses(self, backbone: Any, batch: Tensor) -> dict[str, Tensor]:
        return {"loss": batch.mean() + torch.rand(()) * 0}


def development(ranks: int, rank: int, shares: tuple[float, ...]) -> Any:
    """Return the sums of one rank by kind, and the losses if it is the only rank."""
    sampler = Numbers(lognormal(37), kinds=shares)
    objective: Any = Number()
    callback = DevelopmentLoss(
        samplers={"only": sampler},
        curriculum=Curriculum({"only": STAGE}),
        objectives={"number": objective},
    )
    strategy = SimpleNamespace(
        batch_to_device=lambda batch, device: batch, reduce=lambda value, reduce_op: value
    )
    trainer: Any = SimpleNamespace(
        world_size=ranks,
        global_rank=rank,
        strategy=strategy,
        precision_plugin=lightning.pytorch.plugins.precision.Precision(),
    )
    system: Any = nn.Linear(1, 1)
    system.device, system.backbone = torch.device("cpu"), None
    stage = Curriculum({"only": STAGE}).stages[0]
    state = torch.get_rng_state()
    losses = callback.losses(trainer, system, stage)
    assert torch.equal(state, torch.get_rng_state())
    with torch.random.fork_rng():
        return callback._sums(trainer, system, stage), losses


def test_the_development_loss_is_the_mean_of_all_examples() -> None:
    _, losses = development(1, 0, (1.0,))
    assert losses == {"dev/only/loss": pytest.approx(float(np.arange(37).mean()))}


def test_ranks_share_the_development_loss() -> None:
    one, _ = development(1, 0, (0.7, 0.3))
    ranks = [development(4, rank, (0.7, 0.3))[0] for rank in range(4)]
    for kind, (totals, tokens) in enumerate(one):
        assert float(tokens) == sum(float(rank[kind][1]) for rank in ranks) == 37
        shared = sum(float(rank[kind][0]["loss"]) for rank in ranks)
        assert shared == pytest.approx(float(totals["loss"]))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (EvaluationSteps(every=3), [3, 6, 9]),
        (EvaluationSteps(every=3, first=4, last=10), [6, 9, 10]),
    ],
)
def test_evaluation_steps(steps: EvaluationSteps, expected: list[int]) -> None:
    assert [step for step in range(1, 11) if step in steps] == expected
