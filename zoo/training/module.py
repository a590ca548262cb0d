"""The training plan that trains a system's backbone by a curriculum."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import lightning
import torch
from lightning.pytorch.utilities.types import LRSchedulerConfigType, OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.sampling import Sampler
from zoo.data.views import usable_parts
from zoo.systems.base import StreamingSystem
from zoo.systems.plan import TrainingPlan
from zoo.training.batches import StepLoader, TrainingBatch, training_loader
from zoo.training.contents import PARTS, RESTORED, Restored, count_batches_again
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.muon import mark_tables
from zoo.training.optimizer import (
    ADAMW,
    OPTIMIZER,
    OptimizerFactory,
    check_optimizer,
    check_same_optimizer,
    create_optimizer,
)
from zoo.training.precision import check_precision, keeps_float32_copies, widen
from zoo.training.preparation import make_samplers, prepare
from zoo.training.settings import TrainingSettings
from zoo.training.sharding import ShardedStrategy


class Training(TrainingPlan[StreamingSystem]):
    """Trains the backbone of a system stage by stage.

    One optimizer updates the parameters of all stages. It skips the parameters that the stage of
    the global step freezes; the other parameters have the learning rate of that stage. Parameters
    that no stage trains are frozen from the start and have no optimizer state.

    Args:
        settings: Settings of the training.
        optimizer: Creates the optimizer.
        seed: Seed of the examples.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        *,
        optimizer: OptimizerFactory = ADAMW,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.objectives = nn.ModuleDict(dict(settings.objectives))
        self._optimizer = optimizer
        self._optimizer_path = check_optimizer(optimizer)
        self._seed = seed
        # Samplers by stage; None before ``setup``.
        self._samplers: Mapping[str, Sampler] | None = None
        self._restored: Restored | None = None  # parameters that checkpoints leave out
        self._stage: Stage | None = None  # stage for which parameters are frozen
        self._step_tokens = torch.tensor(0.0)  # tokens of the current step, over all ranks
        self._sums: dict[str, Tensor] = {}  # weighted losses of the current step on this rank

    @property
    def curriculum(self) -> Curriculum:
        """Stages of the training."""
        return self.settings.curriculum

    @property
    def is_ready(self) -> bool:
        """Whether the plan has its talks."""
        return self._samplers is not None

    def setup(
        self,
        system: StreamingSystem,
        talks: Sequence[Talk],
        device: torch.device,
        *,
        samplers: Mapping[str, Sampler] | None = None,
        batches: int = 1,
    ) -> None:
        """Create samplers, network and heads; encode talks for frozen encoders.

        Args:
            system: System to train.
            talks: Training talks.
            device: Device on which talks are encoded.
            samplers: Samplers of the talks, by name of the stage. None creates them.
            batches: Number of batches per step, over all ranks, for stages with passes.

        Raises:
            ZooError: The talks or the backbone lack data or parts that a stage needs.
        """
        talks = usable_parts(talks)
        if samplers is None:  # read the talks first, so their errors come before weights are loaded
            samplers = make_samplers(system, talks, self.settings)
        self.settings = self.settings.counted(samplers, batches=batches, seed=self._seed)
        prepare(system, talks, self.settings, samplers, device)
        self._samplers = samplers

    def loader(self, trainer: lightning.Trainer) -> StepLoader:
        """Return the loader of the batches from the Trainer's global step to the last step."""
        assert self._samplers is not None
        return training_loader(
            self._samplers,
            self.curriculum,
            self.settings.objectives,
            trainer=trainer,
            seed=self._seed,
            workers=self.settings.data_workers,
        )

    def prepare(self, system: StreamingSystem) -> None:
        """Freeze the parameters that no stage trains; checkpoints leave out those of other files.

        The other parameters become float32, unless the strategy updates float32 copies or converts
        them layer by layer. A strategy collects the trainable parameters after this call.

        Raises:
            ZooError: The plan has no talks, or the Trainer's precision rounds trained weights.
        """
        if not self.is_ready:
            raise ZooError("A training needs talks: trainer.fit(system, TalksDataModule(...)).")
        # The plan keeps no parameter: a strategy that shards them replaces and frees them.
        groups = self._group_parameters(system)
        strategy = system.trainer.strategy
        if not keeps_float32_copies(strategy):
            check_precision(system.trainer)
            if not isinstance(strategy, ShardedStrategy):
                widen(chain.from_iterable(groups.values()))
        objectives = {stage.objective for stage in self.curriculum.stages if stage.is_used}
        self.is_uniform = len(groups) == len(objectives) == 1
        if self._restored is None:
            self._restored = Restored(system)
            system.strict_loading = False  # ``check_checkpoint`` checks the names instead

    def complete_checkpoint(self, system: StreamingSystem, checkpoint: dict[str, Any]) -> None:
        """Add the checksums of left-out parameters, batches per step and the optimizer's class."""
        assert self._restored is not None
        checkpoint[RESTORED] = self._restored.checksums
        checkpoint[PARTS] = system.trainer.accumulate_grad_batches
        checkpoint[OPTIMIZER] = self._optimizer_path

    def check_checkpoint(self, system: StreamingSystem, checkpoint: dict[str, Any]) -> None:
        """Check the parameters of a checkpoint and count its batches as this training does.

        Raises:
            ZooError: The checkpoint has other parameters, leaves out parameters that no checkpoint
                of the configuration restores with the same values, or is of another optimizer.
        """
        assert self._restored is not None
        self._restored.check(checkpoint)
        check_same_optimizer(self._optimizer_path, checkpoint)
        count_batches_again(checkpoint, system.trainer.accumulate_grad_batches)

    def _group_parameters(
        self, system: StreamingSystem
    ) -> dict[tuple[str, ...], list[nn.Parameter]]:
        """Group parameters by the names of the stages that train them, and freeze all others."""
        stages_of: dict[nn.Parameter, tuple[str, ...]] = dict.fromkeys(system.parameters(), ())
        for stage in self.curriculum.stages:
            if not stage.is_used:
                continue
            self._freeze(system, stage)
            for parameter in stages_of:
                if parameter.requires_grad:
                    stages_of[parameter] += (stage.name,)

        groups: dict[tuple[str, ...], list[nn.Parameter]] = {}
        for parameter, stages in stages_of.items():
            parameter.requires_grad_(bool(stages))
            if stages:
                groups.setdefault(stages, []).append(parameter)
        return groups

    def optimizers(self, system: StreamingSystem) -> OptimizerLRSchedulerConfig:
        """Return the optimizer with one group per set of stages, which it may divide further.

        A group has the learning rate of the current stage if that stage trains it, otherwise 0.
        """
        mark_tables(system)
        parameters = self._group_parameters(system)
        groups = [{"params": weights} for weights in parameters.values()]
        optimizer = create_optimizer(self._optimizer, groups, system.trainer.strategy)
        stages_of = {p: stages for stages, weights in parameters.items() for p in weights}
        rates = [self._rate_of(stages_of[group["params"][0]]) for group in optimizer.param_groups]
        schedule = LambdaLR(optimizer, rates)
        return {
            "optimizer": optimizer,
            "lr_scheduler": LRSchedulerConfigType(scheduler=schedule, interval="step"),
        }

    def _rate_of(self, stages: tuple[str, ...]) -> Callable[[int], float]:
        """Return the learning rate of a group as a function of the global step.

        Args:
            stages: Names of the stages that train the group.
        """

        def rate(step: int) -> float:
            stage, _ = self.curriculum.at(step)
            return self.learning_rate(step) if stage.name in stages else 0.0

        return rate

    def learning_rate(self, step: int) -> float:
        """Return the learning rate at a global step."""
        stage, within = self.curriculum.at(step)
        return stage.learning_rate * stage.factor(within)

    def begin_batch(self, system: StreamingSystem) -> None:
        """Freeze and unfreeze parameters when a stage begins or a run is resumed within a stage."""
        stage, _ = self.curriculum.at(system.global_step)
        if stage is not self._stage:
            self._freeze(system, stage)
            self._stage = stage

    def _freeze(self, system: StreamingSystem, stage: Stage) -> None:
        """Require gradients of the parameters that ``stage`` trains, and of no others."""
        system.backbone.trainable(stage.trains)
        for name, objective in self.objectives.items():
            objective.requires_grad_(name == stage.objective)

    def loss(self, system: StreamingSystem, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss of a batch under the objective of the current stage.

        The gradients of a step are those of the mean loss over all tokens of the step, on all ranks
        and in all accumulated batches: the loss of a batch is weighted by its share of the tokens.
        """
        assert isinstance(batch, TrainingBatch)
        stage, _ = self.curriculum.at(system.global_step)
        objective = self.objectives[stage.objective]
        assert isinstance(objective, Objective)
        losses = objective.losses(system.backbone, batch.content)

        accumulated = system.trainer.accumulate_grad_batches
        index = batch_idx % accumulated
        if index == 0:
            tokens = torch.tensor(float(batch.step_tokens), device=system.device)
            self._step_tokens = system.trainer.strategy.reduce(tokens, reduce_op="sum")
        # the strategy takes the mean over the ranks, and Lightning that over accumulated batches
        batches = accumulated * system.trainer.world_size
        weight = batches * batch.tokens / self._step_tokens.clamp(min=1.0)
        system.log("loss", losses["loss"].detach(), prog_bar=True, logger=False)
        if system.global_step % self.settings.log_every_steps == 0:
            self._add(losses, weight / accumulated)
            if index == accumulated - 1:
                self._log(system, stage, batch.passes)
        return losses["loss"] * weight

    def _add(self, losses: Mapping[str, Tensor], weight: Tensor) -> None:
        """Add the losses of a batch to those of the step.

        Args:
            losses: Scalars of the batch, by name.
            weight: Weight of the batch on this rank.
        """
        for name, value in losses.items():
            before = self._sums.get(name, torch.zeros_like(weight))
            self._sums[name] = before + weight * value.detach()

    def _log(self, system: StreamingSystem, stage: Stage, passes: float) -> None:
        """Log the losses of a step, the means over all ranks.

        Args:
            system: System that is trained.
            stage: Current stage.
            passes: Number of passes over the examples of the stage before the step.
        """
        reduce = system.trainer.strategy.reduce
        means = {name: float(reduce(total, reduce_op="mean")) for name, total in self._sums.items()}
        self._sums = {}
        values = {f"train/{stage.name}/{name}": mean for name, mean in means.items()}
        values[f"train/{stage.name}/passes"] = passes
        values["train/learning_rate"] = self.learning_rate(system.global_step)
        # ``log`` would repeat the last values of other stages
        for logger in system.loggers:
            logger.log_metrics(values, step=system.global_step)
