"""Training batches as a pure function of (seed, step, rank): a resumed run sees what an uninterrupted one would see."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import lightning
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from zoo.backbones.common.wav2vec2.encoder import FRAME_SAMPLES
from zoo.data.chain_of_thought import Thoughts
from zoo.data.clips import Clips
from zoo.data.excerpts import Excerpt, Excerpts
from zoo.data.robust_segments import RobustSegments
from zoo.objectives.base import Objective
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.encoded import EncodedTalks
from zoo.types import SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a batch is made of. frames: (frames, hidden) of each piece, where a frozen encoder has heard it."""

    pieces: Sequence[Any]
    multiplier: int = 1
    frames: list[Tensor] | None = None


class Supply(Protocol):
    """Where a stage's batches come from."""

    def draw(self, stage: Stage, common: np.random.Generator, random: np.random.Generator) -> Drawn:
        """The pieces of one batch. common: the same for all ranks; random: of this rank."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """One source of stretches. share: of the steps. encoded: what a frozen encoder hears in them."""

    segments: RobustSegments
    share: float
    encoded: EncodedTalks | None = None


@dataclass(frozen=True, slots=True)
class StretchSupply:
    """Stretches of one source per step, of the stage's shapes."""

    sources: Sequence[Stretches]

    def draw(self, stage: Stage, common: np.random.Generator, random: np.random.Generator) -> Drawn:
        """Shape and source are common to all ranks; their stretches are their own."""
        shape = stage.shape(common, self.sources[0].segments.chunk_seconds)
        source = self.sources[
            common.choice(len(self.sources), p=[source.share for source in self.sources])
        ]
        stretches = source.segments.batch(
            random, streams=shape.streams, chunks=shape.chunks, multiplier=shape.multiplier
        )
        encoded = source.encoded
        frames = (
            None
            if encoded is None
            else [encoded.frames(stretch, shape.multiplier) for stretch in stretches]
        )
        return Drawn(stretches, shape.multiplier, frames)


@dataclass(frozen=True, slots=True)
class ExcerptSupply:
    """Excerpts. encoded: what a frozen encoder with blocks of so many chunks hears in them."""

    excerpts: Excerpts
    encoded: EncodedTalks | None = None
    block_chunks: int = 1

    def draw(self, stage: Stage, common: np.random.Generator, random: np.random.Generator) -> Drawn:
        """About the stage's seconds of audio."""
        excerpts = self.excerpts.batch(random, seconds=stage.batch_seconds)
        frames = None if self.encoded is None else [self.heard(excerpt) for excerpt in excerpts]
        return Drawn(excerpts, self.block_chunks, frames)

    def heard(self, excerpt: Excerpt) -> Tensor:
        """(frames, hidden): the encoder's frames that the excerpt touches."""
        assert self.encoded is not None
        rate = SAMPLE_RATE / FRAME_SAMPLES
        first = int(excerpt.start * rate)
        last = max(first + 1, math.ceil(excerpt.end * rate))
        return self.encoded.between(excerpt.talk, self.block_chunks, first, last)


@dataclass(frozen=True, slots=True)
class ThoughtSupply:
    """Thoughts of one length per step."""

    thoughts: Thoughts

    def draw(self, stage: Stage, common: np.random.Generator, random: np.random.Generator) -> Drawn:
        """About the stage's seconds of audio, or fewer where it has fewer examples."""
        return Drawn(
            self.thoughts.batch(random, seconds=stage.batch_seconds, examples=stage.examples)
        )


@dataclass(frozen=True, slots=True)
class ClipSupply:
    """Clips of target speech of about one length per step."""

    clips: Clips

    def draw(self, stage: Stage, common: np.random.Generator, random: np.random.Generator) -> Drawn:
        """About the stage's seconds of target speech."""
        return Drawn(self.clips.batch(random, seconds=stage.batch_seconds))


class StepBatches(Dataset[Any]):
    """Item ``step`` is the whole batch of that global step. supplies: by name of the stage.

    With gradients accumulated over ``parts``, these are the items; two parts on one rank are one part on each of two.
    """

    def __init__(
        self,
        supplies: Mapping[str, Supply],
        curriculum: Curriculum,
        objectives: Mapping[str, Objective],
        *,
        seed: int,
        rank: int,
        parts: int = 1,
    ) -> None:
        self.supplies = supplies
        self.curriculum = curriculum
        self.objectives = objectives
        self.seed = seed
        self.rank = rank
        self.parts = parts

    def __getitem__(self, item: int) -> Any:
        step, part = divmod(item, self.parts)
        stage, _ = self.curriculum.at(step)
        common = np.random.default_rng([self.seed, step])
        random = np.random.default_rng([self.seed, step, self.rank * self.parts + part + 1])
        drawn = self.supplies[stage.name].draw(stage, common, random)
        return self.objectives[stage.objective].batch(drawn.pieces, drawn.multiplier, drawn.frames)


class RemainingSteps(Sampler[int]):
    """Items from ``first`` on. Its length counts all of them: Lightning resumes in the middle of *its* epoch."""

    def __init__(self, *, first: int, steps: int) -> None:
        self.first = first
        self.steps = steps

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.steps))

    def __len__(self) -> int:
        return self.steps


class TrainingData(lightning.LightningDataModule):
    """Batches from the trainer's global step onwards. supplies: by name of the stage."""

    def __init__(
        self,
        *,
        supplies: Mapping[str, Supply],
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
        rank, parts = self.trainer.global_rank, self.trainer.accumulate_grad_batches
        curriculum = self._curriculum.shared(self.trainer.world_size * parts)
        batches = StepBatches(
            self._supplies, curriculum, self._objectives, seed=self._seed, rank=rank, parts=parts
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
            generator=torch.Generator().manual_seed(
                self._seed
            ),  # else a resumed run draws once more from torch's own
        )

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        """Batches are dataclasses with a ``to``."""
        return batch.to(device)
