"""Training batches as a pure function of (seed, step, rank): a resumed run sees what an uninterrupted one would see."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightning
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from zoo.backbones.infinisst.encoder import FRAME_SAMPLES
from zoo.data.excerpts import Excerpt, Excerpts
from zoo.data.robust_segments import RobustSegments
from zoo.objectives.base import Objective
from zoo.training.curriculum import Curriculum
from zoo.training.encoded import EncodedTalks
from zoo.types import SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Supply:
    """Where a batch's stretches come from. share: of the steps. encoded: what a frozen encoder hears in them."""

    segments: RobustSegments
    share: float
    encoded: EncodedTalks | None = None


@dataclass(frozen=True, slots=True)
class ExcerptSupply:
    """Where a stage's excerpts come from. encoded: what a frozen encoder with blocks of so many chunks hears."""

    excerpts: Excerpts
    encoded: EncodedTalks | None = None
    block_chunks: int = 1

    def heard(self, excerpt: Excerpt) -> Tensor:
        """(frames, hidden): the encoder's frames that the excerpt touches."""
        assert self.encoded is not None
        rate = SAMPLE_RATE / FRAME_SAMPLES
        first = int(excerpt.start * rate)
        last = max(first + 1, math.ceil(excerpt.end * rate))
        return self.encoded.between(excerpt.talk, self.block_chunks, first, last)


class StepBatches(Dataset[Any]):
    """Item ``step`` is the whole batch of that global step."""

    def __init__(
        self,
        supplies: Sequence[Supply],
        curriculum: Curriculum,
        objectives: Mapping[str, Objective],
        *,
        seed: int,
        rank: int,
    ) -> None:
        self.supplies = supplies
        self.curriculum = curriculum
        self.objectives = objectives
        self.seed = seed
        self.rank = rank

    def __getitem__(self, step: int) -> Any:
        stage, _ = self.curriculum.at(step)
        common = np.random.default_rng([self.seed, step])  # to all ranks; their stretches are their own
        shape = stage.shape(common, self.supplies[0].segments.chunk_seconds)
        supply = self.supplies[common.choice(len(self.supplies), p=[supply.share for supply in self.supplies])]
        random = np.random.default_rng([self.seed, step, self.rank + 1])
        stretches = supply.segments.batch(
            random, streams=shape.streams, chunks=shape.chunks, multiplier=shape.multiplier
        )
        frames = None
        if supply.encoded is not None:
            frames = [supply.encoded.frames(stretch, shape.multiplier) for stretch in stretches]
        return self.objectives[stage.objective].batch(stretches, shape.multiplier, frames)


class ExcerptBatches(Dataset[Any]):
    """The same of excerpts: item ``step`` is the whole batch of that global step. supplies: by name of the stage."""

    def __init__(
        self,
        supplies: Mapping[str, ExcerptSupply],
        curriculum: Curriculum,
        objectives: Mapping[str, Objective],
        *,
        seed: int,
        rank: int,
    ) -> None:
        self.supplies = supplies
        self.curriculum = curriculum
        self.objectives = objectives
        self.seed = seed
        self.rank = rank

    def __getitem__(self, step: int) -> Any:
        stage, _ = self.curriculum.at(step)
        random = np.random.default_rng([self.seed, step, self.rank + 1])
        supply = self.supplies[stage.name]
        drawn = supply.excerpts.batch(random, seconds=stage.batch_seconds)
        frames = None if supply.encoded is None else [supply.heard(excerpt) for excerpt in drawn]
        return self.objectives[stage.objective].batch(drawn, supply.block_chunks, frames)


class RemainingSteps(Sampler[int]):
    """Global steps from ``first`` on. Its length counts all steps: Lightning resumes in the middle of *its* epoch."""

    def __init__(self, *, first: int, steps: int) -> None:
        self.first = first
        self.steps = steps

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.steps))

    def __len__(self) -> int:
        return self.steps


class TrainingData(lightning.LightningDataModule):
    """Batches from the trainer's global step onwards, of stretches or of each stage's excerpts."""

    def __init__(
        self,
        *,
        supplies: Sequence[Supply] | Mapping[str, ExcerptSupply],
        curriculum: Curriculum,
        objectives: Mapping[str, Objective],
        seed: int = 0,
        workers: int = 1,
    ) -> None:
        super().__init__()
        self._supplies = supplies
        self._curriculum = curriculum
        self._objectives = objectives
        self._seed = seed
        self._workers = workers

    def train_dataloader(self) -> DataLoader[Any]:
        """Whole batches from the trainer's global step (0, or where the checkpoint stopped) to the last one."""
        assert self.trainer is not None
        given = (self._curriculum, self._objectives)
        seed, rank = self._seed, self.trainer.global_rank
        batches: Dataset[Any]
        if isinstance(self._supplies, Mapping):
            batches = ExcerptBatches(self._supplies, *given, seed=seed, rank=rank)
        else:
            batches = StepBatches(self._supplies, *given, seed=seed, rank=rank)
        steps = RemainingSteps(first=self.trainer.global_step, steps=self._curriculum.steps)
        return DataLoader(
            batches,
            batch_size=None,
            sampler=steps,
            num_workers=self._workers,
            prefetch_factor=4 if self._workers else None,
            generator=torch.Generator().manual_seed(self._seed),  # else a resumed run draws once more from torch's own
        )

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Batches are dataclasses with a ``to``."""
        return batch.to(device)
