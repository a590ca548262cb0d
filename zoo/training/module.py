"""The Lightning module that trains a system's backbone by a curriculum."""

from collections.abc import Callable, Mapping
from typing import Any

import lightning
from lightning.pytorch.utilities.types import LRSchedulerConfigType, OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from zoo.objectives.base import Objective
from zoo.systems.base import StreamingSystem
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.optimizer import RestingAdamW


class Training(lightning.LightningModule):
    """Trains ``system.backbone`` stage by stage.

    One optimizer serves all stages: parameters that a stage freezes are skipped, the others have
    the learning rate of the stage of the global step. Parameters that no stage trains are frozen
    from the start and have no optimizer state.

    Args:
        system: The system; only its backbone is trained.
        curriculum: The stages.
        objectives: By the names that the stages give.
        weight_decay: Of AdamW.
        betas: Of AdamW.
        log_every_steps: Steps between two logged losses.
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
        self._groups: dict[tuple[str, ...], list[nn.Parameter]] = {}

    def configure_model(self) -> None:
        """Load the backbone; freeze what no stage trains before a strategy reads the parameters."""
        self.system.configure_model()
        self._groups = self._by_stages()

    def _by_stages(self) -> dict[tuple[str, ...], list[nn.Parameter]]:
        """Parameters by the names of the stages that train them; only these require gradients."""
        trained: dict[nn.Parameter, tuple[str, ...]] = dict.fromkeys(self.parameters(), ())
        for stage in (stage for stage in self.curriculum.stages if stage.steps):
            self._freeze(stage)
            for parameter in trained:
                if parameter.requires_grad:
                    trained[parameter] += (stage.name,)
        groups: dict[tuple[str, ...], list[nn.Parameter]] = {}
        for parameter, stages in trained.items():
            parameter.requires_grad_(bool(stages))
            if stages:
                groups.setdefault(stages, []).append(parameter)
        return groups

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """AdamW with the stage's learning rate, and 0 for what the stage freezes."""
        given = [{"params": parameters} for parameters in self._groups.values()]
        optimizer = RestingAdamW(given, lr=1.0, betas=self.betas, weight_decay=self.weight_decay)
        schedule = LambdaLR(optimizer, [self._rate_of(stages) for stages in self._groups])
        return {
            "optimizer": optimizer,
            "lr_scheduler": LRSchedulerConfigType(scheduler=schedule, interval="step"),
        }

    def _rate_of(self, stages: tuple[str, ...]) -> Callable[[int], float]:
        return lambda step: (
            self.learning_rate(step) if self.curriculum.at(step)[0].name in stages else 0.0
        )

    def learning_rate(self, step: int) -> float:
        """Learning rate at global ``step``."""
        stage, within = self.curriculum.at(step)
        return stage.learning_rate * stage.factor(within)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Freeze and unfreeze when a stage begins, or when a run is resumed in it."""
        stage, _ = self.curriculum.at(self.global_step)
        if stage is not self._stage:
            self._freeze(stage)
            self._stage = stage

    def _freeze(self, stage: Stage) -> None:
        """Require gradients of what ``stage`` trains, and of nothing else."""
        self.system.backbone.trainable(stage.trains)
        for name, objective in self.objectives.items():
            objective.requires_grad_(name == stage.objective)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Loss of one batch under the current stage's objective."""
        stage, _ = self.curriculum.at(self.global_step)
        objective = self.objectives[stage.objective]
        assert isinstance(objective, Objective)
        losses = objective.losses(self.system.backbone, batch)
        self.log("loss", losses["loss"].detach(), prog_bar=True, logger=False)
        first = batch_idx % self.trainer.accumulate_grad_batches == 0
        if first and self.global_step % self.log_every_steps == 0:
            self._log(
                {
                    f"train/{stage.name}/{name}": float(value.detach())
                    for name, value in losses.items()
                }
            )
        return losses["loss"]

    def _log(self, values: dict[str, float]) -> None:
        """Log directly: ``self.log`` would repeat the last values of earlier stages."""
        values["train/learning_rate"] = self.learning_rate(self.global_step)
        for logger in self.loggers:
            logger.log_metrics(values, step=self.global_step)
