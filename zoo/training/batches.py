"""Training batches as a pure function of seed, step and rank, equal in a resumed run."""

import multiprocessing
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

import lightning
import torch
import torch.utils.data
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError
from zoo.base.types import Seconds
from zoo.data.sampling import Example, Sampler
from zoo.training.curriculum import Curriculum
from zoo.training.schedule import Schedule


@dataclass(slots=True)
class TrainingBatch:
    """Batch of one rank, and what its loss and the throughput are computed from.

    Attributes:
        content: Batch of the objective.
        tokens: Number of positions over which the loss of the batch is the mean. 0 for a batch that
            does not count; see ``Schedule.counts``.
        examples: Number of examples.
        seconds: Duration of the audio, in seconds.
        step_tokens: Tokens of all batches of this rank in the step.
        stage: Name of the stage of the training.
        passes: Number of passes over the examples of the stage before the step.
    """

    content: Any
    tokens: int
    examples: int
    seconds: Seconds
    step_tokens: int = 0
    stage: str = ""
    passes: float = 0.0

    def pin_memory(self) -> Self:
        """Copy the tensors of the batch to pinned memory, for a DataLoader with ``pin_memory``."""
        self.content = apply_to_collection(self.content, Tensor, Tensor.pin_memory)
        return self


def examples_of(batch: TrainingBatch) -> int:
    """Return the number of examples: the ``batch_size_fn`` of Lightning's ``ThroughputMonitor``."""
    return batch.examples


@dataclass(eq=False)
class StepBatches(Dataset[TrainingBatch]):
    """Data set whose item ``step * parts + part`` is one batch of this rank in a global step.

    Args:
        schedules: Schedules of the stages, by name of the stage.
        curriculum: Stages of the training.
        objectives: Objectives by the names that the stages refer to.
        rank: Global rank of this process.
        batches_per_step: Number of batches whose gradients are accumulated in a step. Two batches
            on one rank equal one batch on each of two ranks.
    """

    schedules: Mapping[str, Schedule]
    curriculum: Curriculum
    objectives: Mapping[str, Objective]
    rank: int
    batches_per_step: int = 1

    def __getitem__(self, item: int) -> TrainingBatch:
        global_step, number = divmod(item, self.batches_per_step)
        stage, step = self.curriculum.at(global_step)
        schedule = self.schedules[stage.name]
        # Index among the batches of all ranks in the step.
        index = self.rank * self.batches_per_step + number
        batch = collate_counted(
            self.objectives[stage.objective],
            schedule.examples(step, index),
            counts=schedule.counts(step, index),
        )
        batch.stage, batch.passes = stage.name, schedule.passes(step)
        return batch


def collate_counted(
    objective: Objective, examples: Sequence[Example], *, counts: bool = True
) -> TrainingBatch:
    """Collate examples and count them.

    Args:
        objective: Objective that collates the examples.
        examples: Examples of one batch.
        counts: Whether the batch counts in the loss.
    """
    content = objective.batch(examples)
    return TrainingBatch(
        content,
        tokens=objective.tokens(content) if counts else 0,
        examples=len(examples),
        seconds=sum(example.seconds for example in examples),
    )


def schedules(
    samplers: Mapping[str, Sampler], curriculum: Curriculum, *, seed: int, batches: int
) -> dict[str, Schedule]:
    """Return the schedules of the stages that have a sampler, by name of the stage.

    Args:
        samplers: Samplers of the examples, by name of the stage.
        curriculum: Stages of the training.
        seed: Seed of the training.
        batches: Number of batches per step, over all ranks.

    Raises:
        ZooError: ``examples`` of a stage is not divisible by ``batches``.
    """
    stages = enumerate(curriculum.shared(batches).stages, start=1)
    return {
        stage.name: Schedule(
            samplers[stage.name],
            stage.limits,
            steps=stage.steps,
            batches=batches,
            seed=[seed, number],
        )
        for number, stage in stages
        if stage.name in samplers
    }


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


class StepLoader:
    """Loader that counts the tokens of the steps of one rank.

    It loads all batches of a step before it yields the first, because the loss of each batch is
    divided by the tokens of the step.

    Args:
        loader: Loader of the batches.
        batches_per_step: Number of batches of this rank in a step.

    Attributes:
        waited: Seconds in which the training waited for batches.
    """

    def __init__(self, loader: DataLoader[TrainingBatch], batches_per_step: int) -> None:
        self._loader = loader
        self._batches_per_step = batches_per_step
        self.waited: Seconds = 0.0

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[TrainingBatch]:
        loaded = iter(self._loader)
        while True:
            start = time.perf_counter()
            batches = list(islice(loaded, self._batches_per_step))
            self.waited += time.perf_counter() - start
            if not batches:
                return
            tokens = sum(batch.tokens for batch in batches)
            for batch in batches:
                batch.step_tokens = tokens
                yield batch


def training_loader(
    samplers: Mapping[str, Sampler],
    curriculum: Curriculum,
    objectives: Mapping[str, Objective],
    *,
    trainer: lightning.Trainer,
    seed: int = 0,
    workers: int = 1,
) -> StepLoader:
    """Return the loader of the batches from the Trainer's global step to the last step.

    Args:
        samplers: Samplers of the examples, by name of the stage.
        curriculum: Stages of the training.
        objectives: Objectives by the names that the stages refer to.
        trainer: Trainer of the training.
        seed: Seed of the training.
        workers: Number of processes that load batches. 0 loads batches in the main process.

    Raises:
        ZooError: The workers have no shared memory.
    """
    if workers:
        check_shared_memory()
    batches_per_step = trainer.accumulate_grad_batches
    by_stage = schedules(
        samplers, curriculum, seed=seed, batches=trainer.world_size * batches_per_step
    )
    batches = StepBatches(by_stage, curriculum, objectives, trainer.global_rank, batches_per_step)
    loader = DataLoader(
        batches,
        batch_size=None,  # an item is a whole batch
        sampler=RemainingItems(
            first=trainer.global_step * batches_per_step, items=curriculum.steps * batches_per_step
        ),
        num_workers=workers,
        pin_memory=trainer.strategy.root_device.type == "cuda",
        worker_init_fn=ignore_termination,
        prefetch_factor=4 if workers else None,
        # a DataLoader without a generator would draw a number from torch's global generator at
        # each start, so a resumed run would differ from an uninterrupted run
        generator=torch.Generator().manual_seed(seed),
    )
    return StepLoader(loader, batches_per_step)


def check_shared_memory() -> None:
    """Raise ZooError if processes cannot share a lock, as without /dev/shm."""
    try:
        multiprocessing.Lock()
    except (OSError, ImportError) as error:
        raise ZooError(
            f"Data workers need shared memory, which this machine refuses ({error}); mount "
            "/dev/shm, or set training.data_workers=0."
        ) from error


def ignore_termination(worker: int) -> None:
    """Let a data worker live on after SIGTERM and SIGHUP, which are sent to every process.

    The training saves its state first (``callbacks/termination.py``) and ends its workers.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
