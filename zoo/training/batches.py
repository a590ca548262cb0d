"""Training batches as a pure function of (seed, step, rank), the same in a resumed run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lightning
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from zoo.data.sampling import Sampler as ExampleSampler
from zoo.objectives.base import Objective
from zoo.training.curriculum import Curriculum


@dataclass(eq=False)
class StepBatches(Dataset[Any]):
    """Item ``step`` is the whole batch of that global step.

    Args:
        samplers: Draw the examples, by name of the stage.
        curriculum: The stages.
        objectives: By the names that the stages give.
        seed: Of the training.
        rank: Of this process.
        parts: Batches whose gradients are accumulated in a step. Items are then the parts of the
            steps; two parts on one rank equal one part on each of two ranks.
    """

    samplers: Mapping[str, ExampleSampler]
    curriculum: Curriculum
    objectives: Mapping[str, Objective]
    seed: int
    rank: int
    parts: int = 1

    def __getitem__(self, item: int) -> Any:
        step, part = divmod(item, self.parts)
        stage, _ = self.curriculum.at(step)
        shape = stage.shape(np.random.default_rng([self.seed, step]))  # the same on all ranks
        random = np.random.default_rng([self.seed, step, self.rank * self.parts + part + 1])

        examples = self.samplers[stage.name].batch(random, shape)
        return self.objectives[stage.objective].batch(examples)


class RemainingSteps(Sampler[int]):
    """Items from ``first`` on; the length counts all items, because Lightning resumes mid-epoch."""

    def __init__(self, *, first: int, steps: int) -> None:
        self.first = first
        self.steps = steps

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.steps))

    def __len__(self) -> int:
        return self.steps


class TrainingData(lightning.LightningDataModule):
    """Batches from the trainer's global step onwards; arguments as in ``StepBatches``."""

    def __init__(
        self,
        *,
        samplers: Mapping[str, ExampleSampler],
        curriculum: Curriculum,
        objectives: Mapping[str, Objective],
        seed: int = 0,
        workers: int = 1,
    ) -> None:
        super().__init__()
        self._samplers = samplers
        self._curriculum = curriculum
        self._objectives = objectives
        self._seed = seed
        self._workers = workers

    def train_dataloader(self) -> DataLoader[Any]:
        """Whole batches from the trainer's global step (0, or of the checkpoint) to the last."""
        assert self.trainer is not None
        rank, parts = self.trainer.global_rank, self.trainer.accumulate_grad_batches
        curriculum = self._curriculum.shared(self.trainer.world_size * parts)
        batches = StepBatches(
            self._samplers, curriculum, self._objectives, seed=self._seed, rank=rank, parts=parts
        )
        steps = RemainingSteps(
            first=self.trainer.global_step * parts, steps=self._curriculum.steps * parts
        )
        return DataLoader(
            batches,
            batch_size=None,
            sampler=steps,
            num_workers=self._workers,
            prefetch_factor=4 if self._workers else None,
            # a DataLoader without a generator draws from torch's global one once per start
            generator=torch.Generator().manual_seed(self._seed),
        )
