"""The callbacks that write checkpoints."""

from pathlib import Path

import lightning
import torch
from torch import Tensor, nn

from zoo.training.curriculum import EvaluationSteps
from zoo.training.trainer import savers

SCORE = "dev/BLEU"


class Module(lightning.LightningModule):
    """A module with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def training_step(self, batch: Tensor) -> Tensor:
        return self.weight * batch.sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Evaluation(lightning.Callback):
    """Logs ``scores[n]`` after step n."""

    def __init__(self, scores: dict[int, float]) -> None:
        self.scores = scores

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, *_: object
    ) -> None:
        if trainer.global_step in self.scores:
            module.log(SCORE, self.scores[trainer.global_step], logger=False)


def kept(folder: Path, scores: dict[int, float], *, every: int, first: int = 0) -> list[str]:
    """Train for 8 steps of two batches each; the names of the best checkpoints."""
    steps = EvaluationSteps(every=every, first=first, last=8)
    assert [step for step in range(1, 9) if step in steps] == sorted(scores)
    last, best = savers(folder, save_every_steps=3, steps=steps, monitor=SCORE, keep=1)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=8,
        accumulate_grad_batches=2,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Evaluation(scores), best, last],
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.ones(40, 1)))
    return sorted(path.name for path in folder.glob("best*"))


def test_the_best_step_may_be_the_last_between_two_intervals(tmp_path: Path) -> None:
    assert kept(tmp_path / "a", {5: 0.5, 8: 1.2}, every=5) == ["best-step=8.ckpt"]
    assert kept(tmp_path / "b", {5: 1.2, 8: 0.5}, every=5) == ["best-step=5.ckpt"]
    assert kept(tmp_path / "c", {8: 0.0}, every=500) == ["best-step=8.ckpt"]


def test_steps_before_the_first_evaluation_are_not_ranked(tmp_path: Path) -> None:
    assert kept(tmp_path / "a", {6: 1.2, 8: 0.5}, every=2, first=5) == ["best-step=6.ckpt"]
