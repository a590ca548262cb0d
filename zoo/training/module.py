"""A system in training: runs the curriculum on its backbone. Streams nothing, saves nothing, knows no data set."""

from collections.abc import Mapping
from typing import Any

import lightning
from lightning.pytorch.utilities.types import LRSchedulerConfigType, OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from zoo.objectives.base import Objective
from zoo.systems.base import StreamingSystem
from zoo.training.curriculum import Curriculum, Stage


class Training(lightning.LightningModule):
    """Trains ``system.backbone`` stage by stage.

    One optimizer lives through all stages: parameters frozen in a stage have no gradient and are left alone, and the
    learning rate is that of the stage the global step is in.
    """

    def __init__(
        self,
        *,
        system: StreamingSystem,
        curriculum: Curriculum,
        objectives: Mapping[str, Objective],
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.98),
        log_every_steps: int = 20,
    ) -> None:
        super().__init__()
        self.system = system
        self.objectives = nn.ModuleDict(dict(objectives))
        self.curriculum = curriculum
        self.weight_decay = weight_decay
        self.betas = betas
        self.log_every_steps = log_every_steps
        self._stage: Stage | None = None

    def configure_model(self) -> None:
        """Create or load the backbone's weights."""
        self.system.configure_model()

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """AdamW with the stage's learning rate at every step."""
        optimizer = AdamW(self.parameters(), lr=1.0, betas=self.betas, weight_decay=self.weight_decay)
        schedule = LambdaLR(optimizer, self.learning_rate)
        return {"optimizer": optimizer, "lr_scheduler": LRSchedulerConfigType(scheduler=schedule, interval="step")}

    def learning_rate(self, step: int) -> float:
        """Learning rate at global ``step``."""
        stage, within = self.curriculum.at(step)
        return stage.learning_rate * stage.factor(within)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Freeze and unfreeze when a stage begins (also the one a resumed run falls into)."""
        stage, _ = self.curriculum.at(self.global_step)
        if stage is not self._stage:
            self.system.backbone.trainable(stage.trains)
            for name, objective in self.objectives.items():
                objective.requires_grad_(name == stage.objective)
            self._stage = stage

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Loss of one batch under the current stage's objective."""
        stage, _ = self.curriculum.at(self.global_step)
        objective = self.objectives[stage.objective]
        assert isinstance(objective, Objective)
        losses = objective.losses(self.system.backbone, batch)
        self.log("loss", losses["loss"].detach(), prog_bar=True, logger=False)
        if self.global_step % self.log_every_steps == 0:
            self._log({f"train/{stage.name}/{name}": float(value.detach()) for name, value in losses.items()})
        return losses["loss"]

    def _log(self, values: dict[str, float]) -> None:
        """Straight to the loggers: ``self.log`` would repeat the last values of stages that are over."""
        values["train/learning_rate"] = self.learning_rate(self.global_step)
        for logger in self.loggers:
            logger.log_metrics(values, step=self.global_step)
