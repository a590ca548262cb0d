"""Loss of the development talks during training."""

from collections.abc import Mapping

import lightning
import torch
from torch import Tensor

from zoo.backbones.objective import Objective
from zoo.data.sampling import Sampler
from zoo.systems.base import StreamingSystem
from zoo.training.batches import collate_counted
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.schedule import one_pass
from zoo.training.sharding import whole_parameters


class DevelopmentLoss:
    """Computes the losses of the current stage on the development talks: ``dev/<stage>/<loss>``.

    A stage without a sampler has no development loss. ``DevelopmentEvaluation`` has gathered the
    weights that ranks share. The examples of one pass are the same at each evaluation, and the
    ranks share them. The losses are means over all tokens of a kind of examples; the kinds have
    the shares of the sampler.

    Args:
        samplers: Samplers of the development talks, by name of the stage.
        curriculum: Stages of the training.
        objectives: Objectives by the names that the stages refer to.
        seed: Seed of the examples.
    """

    def __init__(
        self,
        *,
        samplers: Mapping[str, Sampler],
        curriculum: Curriculum,
        objectives: Mapping[str, Objective],
        seed: int = 0,
    ) -> None:
        self._samplers = samplers
        self._curriculum = curriculum
        self._objectives = objectives
        self._seed = seed

    def at(
        self, trainer: lightning.Trainer, system: StreamingSystem, step: int
    ) -> dict[str, float]:
        """Compute the losses after an optimizer step; see ``losses``.

        Every rank has all weights of the backbone. Without a sampler of the stage there are none.
        """
        stage, _ = self._curriculum.at(step - 1)
        if stage.name not in self._samplers:
            return {}
        with whole_parameters(trainer.strategy, self._objectives[stage.objective]):
            return self.losses(trainer, system, stage)

    def losses(
        self, trainer: lightning.Trainer, system: StreamingSystem, stage: Stage
    ) -> dict[str, float]:
        """Compute the losses of a stage with the current weights.

        All ranks call this method at the same step. Random numbers of the training are not used.

        Args:
            trainer: Trainer of the training.
            system: System that is trained.
            stage: Stage whose examples and objective are used.

        Returns:
            Losses by logged name.
        """
        was_training = system.training
        system.eval()
        devices = [system.device] if system.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.no_grad():
            torch.manual_seed(self._seed)
            with trainer.precision_plugin.forward_context():
                sums = self._sums(trainer, system, stage)
        system.train(was_training)

        sampler = self._samplers[stage.name]
        values: dict[str, float] = {}
        for share, (kind_sums, tokens) in zip(sampler.kinds, sums, strict=True):
            total_tokens = _summed(trainer, tokens)
            for name, total in kind_sums.items():
                mean = float(_summed(trainer, total) / total_tokens.clamp(min=1.0))
                logged = f"dev/{stage.name}/{name}"
                values[logged] = values.get(logged, 0.0) + share * mean
        return values

    def _sums(
        self, trainer: lightning.Trainer, system: StreamingSystem, stage: Stage
    ) -> list[tuple[dict[str, Tensor], Tensor]]:
        """Return, for each kind of examples, sums of the losses of all tokens, and the tokens."""
        sampler, objective = self._samplers[stage.name], self._objectives[stage.objective]
        zero = torch.zeros((), device=system.device)
        sums: list[tuple[dict[str, Tensor], Tensor]] = [({}, zero.clone()) for _ in sampler.kinds]
        batches = one_pass(
            sampler,
            stage.limits,
            batches=trainer.world_size,
            batch=trainer.global_rank,
            seed=[self._seed],
        )
        for kind, examples, counts in batches:
            batch = collate_counted(objective, examples, counts=counts)
            content = trainer.strategy.batch_to_device(batch.content, system.device)
            losses = objective.losses(system.backbone, content)
            totals, tokens = sums[kind]
            tokens += batch.tokens
            for name, value in losses.items():
                weighted = batch.tokens * value.float() if batch.tokens else zero
                totals[name] = totals.get(name, zero) + weighted
        return sums


def _summed(trainer: lightning.Trainer, value: Tensor) -> Tensor:
    """Return the sum of a scalar over all ranks."""
    total = trainer.strategy.reduce(value.clone(), reduce_op="sum")
    assert isinstance(total, Tensor)
    return total
