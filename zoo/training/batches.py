"""Training batches as a pure function of seed, step and rank, equal in a resumed run."""

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lightning
import numpy as np
import torch
import torch.utils.data
from torch.utils.data import DataLoader, Dataset

from zoo.data.sampling import Sampler
from zoo.objectives.base import Objective
from zoo.training.curriculum import Curriculum


@dataclass(eq=False)
class StepBatches(Dataset[Any]):
    """Data set whose item ``step`` is the whole batch of that global step.

    With several parts per step, item ``step * parts + part`` is one part of the batch of a step.

    Args:
        samplers: Samplers that draw the examples, by name of the stage.
        curriculum: Stages of the training.
        objectives: Objectives by the names that the stages refer to.
        seed: Seed of the training.
        rank: Global rank of this process.
        parts: Number of batches whose gradients are accumulated in a step. Two parts on one rank
            equal one part on each of two ranks.
    """

    samplers: Mapping[str, Sampler]
    curriculum: Curriculum
    objectives: Mapping[str, Objective]
    seed: int
    rank: int
    parts: int = 1

    def __getitem__(self, item: int) -> Any:
        step, part = divmod(item, self.parts)
        stage, _ = self.curriculum.at(step)

        # The shape is equal on all ranks, the examples differ. NumPy ignores zeros at the end of a
        # list of seeds, so batches are counted from 1: [seed, step, 0] would equal [seed, step].
        shape = stage.shape(np.random.default_rng([self.seed, step]))
        batch_number = self.rank * self.parts + part + 1
        random = np.random.default_rng([self.seed, step, batch_number])

        examples = self.samplers[stage.name].batch(random, shape)
        return self.objectives[stage.objective].batch(examples)


@dataclass(kw_only=True, eq=False)
class RemainingItems(torch.utils.data.Sampler[int]):
    """Yields the items from ``first`` on.

    The length counts all items, because Lightning resumes in the middle of its only epoch.

    Args:
        first: First item.
        items: Number of all items.
    """

    first: int
    items: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.items))

    def __len__(self) -> int:
        return self.items


class TrainingData(lightning.LightningDataModule):
    """Data module of the batches from the Trainer's global step on.

    Args:
        samplers: Samplers that draw the examples, by name of the stage.
        curriculum: Stages of the training.
        objectives: Objectives by the names that the stages refer to.
        seed: Seed of the training.
        workers: Number of processes that load batches. 0 loads batches in the main process.
    """

    def __init__(
        self,
        *,
        samplers: Mapping[str, Sampler],
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

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """Return no loader: ``DevelopmentEvaluation`` streams talks at given optimizer steps."""
        return []

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the loader of the batches from the Trainer's global step to the last step."""
        assert self.trainer is not None
        rank, parts = self.trainer.global_rank, self.trainer.accumulate_grad_batches
        curriculum = self._curriculum.shared(self.trainer.world_size * parts)
        batches = StepBatches(
            self._samplers, curriculum, self._objectives, seed=self._seed, rank=rank, parts=parts
        )
        items = RemainingItems(
            first=self.trainer.global_step * parts, items=self._curriculum.steps * parts
        )
        return DataLoader(
            batches,
            batch_size=None,  # an item is a whole batch
            sampler=items,
            num_workers=self._workers,
            worker_init_fn=ignore_sigterm,
            prefetch_factor=4 if self._workers else None,
            # a DataLoader without a generator would draw a number from torch's global generator at
            # each start, so a resumed run would differ from an uninterrupted run
            generator=torch.Generator().manual_seed(self._seed),
        )


def ignore_sigterm(worker: int) -> None:
    """Let a data worker live on after SIGTERM, which batch systems send to every process.

    The training saves its state first (``zoo/callbacks/termination.py``) and ends its workers.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
