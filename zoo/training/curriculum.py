"""What is trained when: stages, their learning rates and the shape of each step's batch.

Everything is a pure function of the step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from zoo.data.sampling import BatchShape, Sampling
from zoo.errors import ZooError
from zoo.types import Seconds


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a training.

    Attributes:
        objective: Name of the objective.
        steps: Optimizer steps.
        learning_rate: Peak learning rate.
        batch_seconds: Audio of a batch; of clips: target speech.
        trains: Parts of the backbone to update, the rest is frozen; None: all parts.
        examples: Most examples of a step, divided among its batches; None: no limit.
        sampling: The examples of this stage; None: as the objective's own ``sampling`` describes.
        chunks: Lengths of robust segments to draw from (repeat one to draw it more often).
        multipliers: Latency multipliers m to draw from; one above the length is lowered to it.
        warmup_steps: Steps in which the learning rate rises to its peak.
        schedule: After the warm-up, constant for ``hold`` of the stage, then to zero.
        hold: Share of the stage's steps after which a schedule begins to decay.
        name: The stage's key in the curriculum.
    """

    objective: str
    steps: int
    learning_rate: float
    batch_seconds: Seconds
    trains: Sequence[str] | None = None
    examples: int | None = None
    sampling: Sampling | None = None
    chunks: Sequence[int] = (1,)
    multipliers: Sequence[int] = (1,)
    warmup_steps: int = 60
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    hold: float = 0.5
    name: str = ""

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

    def shape(self, random: np.random.Generator) -> BatchShape:
        """Draw the shape of one batch: one length and one multiplier for all its examples."""
        chunks = int(random.choice(list(self.chunks)))
        multiplier = min(int(random.choice(list(self.multipliers))), chunks)

        return BatchShape(
            seconds=self.batch_seconds,
            examples=self.examples,
            chunks=chunks - chunks % multiplier,
            multiplier=multiplier,
            choice=random.random(),
        )

    @property
    def possible_multipliers(self) -> set[int]:
        """All latency multipliers that ``shape`` may draw."""
        return {min(m, chunks) for m in self.multipliers for chunks in self.chunks}


class Curriculum:
    """Named stages one after the other, addressed by the global step."""

    def __init__(self, stages: Mapping[str, Stage]) -> None:
        if not any(stage.steps for stage in stages.values()):
            raise ZooError("A training needs at least one stage with steps.")
        self.stages = tuple(replace(stage, name=name) for name, stage in stages.items())

    def shared(self, batches: int) -> "Curriculum":
        """The curriculum of each of the ``batches`` of a step.

        Raises ZooError for examples that cannot be divided among them.
        """
        for stage in self.stages:
            if (stage.examples or 0) % batches:
                raise ZooError(
                    f"The {stage.examples} examples of a step of stage {stage.name!r} cannot be "
                    f"divided among {batches} batches (trainer.devices times "
                    "trainer.accumulate_grad_batches)."
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
        return {m for stage in self.stages if stage.steps for m in stage.possible_multipliers}

    def at(self, step: int) -> tuple[Stage, int]:
        """The stage of global ``step`` and the step within it; after all stages, the last one."""
        for stage in self.stages[:-1]:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        return self.stages[-1], step
