"""What is trained when: stages, their learning rates and the shape of each step's batch. Pure functions of the step."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from zoo.data.chain_of_thought import ThoughtConfig
from zoo.data.clips import ClipConfig
from zoo.data.excerpts import ExcerptConfig
from zoo.errors import ZooError
from zoo.types import Seconds


@dataclass(frozen=True, slots=True)
class BatchShape:
    """streams x chunks of base-size chunks, merged ``multiplier`` at a time."""

    streams: int
    chunks: int
    multiplier: int


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of training.

    objective: name of the objective. trains: children of the backbone to update, the rest is frozen.
    chunks: lengths of a stretch to draw from (repeat one to draw it more often). multipliers: latency multipliers m
    to draw from; one larger than the stretch is taken as its whole length. Only stretches need them. batch_seconds:
    audio of a batch (of clips: target speech). examples: thoughts of a step, shared out over its batches (None: as many
    as the audio has). excerpts, thoughts, clips: what this stage's are like, where the training's own are not meant.
    schedule: after the warm-up, constant for ``hold`` of the stage, then to zero (``linear`` or ``cosine``).
    """

    objective: str
    trains: Sequence[str]
    steps: int
    learning_rate: float
    batch_seconds: Seconds
    chunks: Sequence[int] = (1,)
    multipliers: Sequence[int] = (1,)
    excerpts: ExcerptConfig | None = None
    thoughts: ThoughtConfig | None = None
    clips: ClipConfig | None = None
    examples: int | None = None
    warmup_steps: int = 60
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    hold: float = 0.5
    name: str = ""  # its key in the curriculum

    def __post_init__(self) -> None:
        """Raises ZooError for numbers that make no batch."""
        if not self.chunks or not self.multipliers or min(*self.chunks, *self.multipliers) < 1:
            raise ZooError(
                f"A training stage needs chunks and multipliers of at least 1 to draw from, "
                f"not {list(self.chunks)} and {list(self.multipliers)}."
            )
        if self.examples is not None and self.examples < 1:
            raise ZooError(f"A training stage needs examples of at least 1, not {self.examples}.")
        if self.steps < 0 or self.batch_seconds <= 0:
            raise ZooError(
                f"A training stage needs steps of at least 0 and batch_seconds above 0, "
                f"not {self.steps} and {self.batch_seconds}."
            )

    def factor(self, step: int) -> float:
        """Learning-rate factor in [0, 1] at ``step`` of this stage."""
        warm = min(1.0, (step + 1) / max(1, self.warmup_steps))
        if self.schedule == "constant":
            return warm
        begin = self.hold * self.steps
        done = max(0.0, (step - begin) / max(1.0, self.steps - begin))
        return warm * (
            1.0 - done if self.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
        )

    def shape(self, random: np.random.Generator, chunk_seconds: Seconds) -> BatchShape:
        """Draw the shape of one batch: one length and one multiplier for all its streams."""
        chunks = int(random.choice(list(self.chunks)))
        multiplier = min(int(random.choice(list(self.multipliers))), chunks)
        chunks -= chunks % multiplier
        return BatchShape(
            max(1, round(self.batch_seconds / (chunks * chunk_seconds))), chunks, multiplier
        )


class Curriculum:
    """Named stages one after the other, addressed by the global step."""

    def __init__(self, stages: Mapping[str, Stage]) -> None:
        if not any(stage.steps for stage in stages.values()):
            raise ZooError("A training needs at least one stage with steps.")
        self.stages = tuple(replace(stage, name=name) for name, stage in stages.items())

    def shared(self, batches: int) -> "Curriculum":
        """That of one of the ``batches`` of a step. Raises ZooError for examples that cannot be shared out evenly."""
        for stage in self.stages:
            if (stage.examples or 0) % batches:
                raise ZooError(
                    f"The {stage.examples} examples of a step of stage {stage.name!r} cannot be shared out over "
                    f"{batches} batches (trainer.devices times trainer.accumulate_grad_batches)."
                )
        return Curriculum(
            {
                stage.name: replace(stage, examples=stage.examples and stage.examples // batches)
                for stage in self.stages
            }
        )

    @property
    def steps(self) -> int:
        """Steps of all stages together."""
        return sum(stage.steps for stage in self.stages)

    @property
    def multipliers(self) -> set[int]:
        """All latency multipliers that a batch may have."""
        drawn = [
            (m, chunks)
            for stage in self.stages
            if stage.steps
            for m in stage.multipliers
            for chunks in stage.chunks
        ]
        return {min(multiplier, chunks) for multiplier, chunks in drawn}

    def at(self, step: int) -> tuple[Stage, int]:
        """The stage that global ``step`` belongs to and the step within it; the last stage goes on for ever."""
        for stage in self.stages[:-1]:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        return self.stages[-1], step
