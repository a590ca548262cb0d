"""Curriculum of a training: stages, learning-rate schedules and batch sizes.

The stage and the learning rate depend only on the global step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from zoo.base.errors import ZooError, check_numbers
from zoo.base.types import Seconds
from zoo.data.sampling import Sampling, Stretches
from zoo.training.schedule import Limits


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a training: objective, number of steps, learning rate and batch sizes.

    A robust segment (section 3.3 of the InfiniSST paper) is an example of consecutive audio chunks
    of a whole talk, silence included.

    Attributes:
        objective: Name of the objective.
        learning_rate: Peak learning rate.
        steps: Number of optimizer steps. A stage without steps and passes is skipped.
        passes: Number of passes over the examples, from which the number of steps is computed.
        batch_seconds: Maximum of the number of examples of a batch times their longest duration, in
            seconds. For clips, the target speech counts. A step has one batch for each rank and
            accumulation.
        step_seconds: The same for all batches of a step together, instead of ``batch_seconds``. It
            does not depend on the number of devices.
        trains: Names of the backbone parts to update; all other parts are frozen. None updates all
            parts.
        examples: Maximum number of examples in a step, divided among the batches of the step. None
            sets no maximum.
        sampling: Options of the sampler in this stage. None uses the options of the objective.
        chunks: Lengths of robust segments, in chunks; see ``Stretches``.
        multipliers: Latency multipliers m of robust segments; see ``Stretches``.
        warmup_steps: Number of steps of the linear warm-up to the peak learning rate.
        warmup_share: Share of the stage's steps, in [0, 1], that are the warm-up. None uses
            ``warmup_steps``.
        schedule: Decay of the learning rate to zero after ``hold``; ``constant`` has no decay.
        hold: Share of the stage's steps, in [0, 1], before the decay begins.
        name: Key of the stage in the curriculum.
    """

    objective: str
    learning_rate: float
    steps: int = 0
    passes: float | None = None
    batch_seconds: Seconds | None = None
    step_seconds: Seconds | None = None
    trains: Sequence[str] | None = None
    examples: int | None = None
    sampling: Sampling | None = None
    chunks: Sequence[int] = (1,)
    multipliers: Sequence[int] = (1,)
    warmup_steps: int = 60
    warmup_share: float | None = None
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    hold: float = 0.5
    name: str = ""

    def __post_init__(self) -> None:
        """Check the numbers of the stage.

        Raises:
            ZooError: Chunks, multipliers or a number are out of range, or two of them contradict
                each other.
        """
        if not self.chunks or not self.multipliers or min(*self.chunks, *self.multipliers) < 1:
            raise ZooError(
                f"A training stage needs chunks and multipliers of at least 1 to draw from, "
                f"not {list(self.chunks)} and {list(self.multipliers)}."
            )
        check_numbers("A training stage", least=1, examples=self.examples)
        check_numbers("A training stage", least=0, steps=self.steps, warmup_steps=self.warmup_steps)
        check_numbers("A training stage", above=0, learning_rate=self.learning_rate)
        check_numbers(
            "A training stage", least=0, most=1, warmup_share=self.warmup_share, hold=self.hold
        )
        check_numbers("A training stage", least=0, passes=self.passes)
        if self.steps and self.passes:
            raise ZooError("A training stage has either steps or passes, not both.")
        check_numbers(
            "A training stage",
            above=0,
            batch_seconds=self.batch_seconds,
            step_seconds=self.step_seconds,
        )
        if (self.batch_seconds is None) == (self.step_seconds is None):
            raise ZooError("A training stage has either batch_seconds or step_seconds.")

    def factor(self, step: int) -> float:
        """Return the learning-rate factor in [0, 1] at ``step`` of this stage, counted from 0."""
        warmup = self.warmup_steps
        if self.warmup_share is not None:
            warmup = round(self.warmup_share * self.steps)
        warmup_factor = min(1.0, (step + 1) / max(1, warmup))
        if self.schedule == "constant":
            return warmup_factor

        # A decay below the warm-up would lower the peak.
        decay_start = max(warmup, self.hold * self.steps)
        progress = max(0.0, (step - decay_start) / max(1.0, self.steps - decay_start))
        if self.schedule == "linear":
            return warmup_factor * (1.0 - progress)
        return warmup_factor * (0.5 * (1.0 + math.cos(math.pi * progress)))

    @property
    def is_used(self) -> bool:
        """Whether the stage has steps, or passes from which steps are computed."""
        return bool(self.steps or self.passes)

    @property
    def limits(self) -> Limits:
        """Size of one batch, of a stage whose step is divided; see ``Curriculum.shared``."""
        assert self.batch_seconds is not None, "step_seconds are not divided among batches"
        return Limits(self.batch_seconds, self.examples)

    @property
    def stretches(self) -> Stretches:
        """Lengths and latency multipliers of robust segments."""
        return Stretches(tuple(self.chunks), tuple(self.multipliers))


@dataclass(frozen=True, slots=True)
class EvaluationSteps:
    """Optimizer steps after which the development talks are evaluated.

    Attributes:
        every: Number of steps between two evaluations.
        first: First step that can have an evaluation.
        last: Step that has an evaluation in any case. None adds no such step.
    """

    every: int
    first: int = 0
    last: int | None = None

    def __contains__(self, step: int) -> bool:
        return step == self.last or (step >= self.first and step % self.every == 0)


class Curriculum:
    """Sequence of named stages, addressed by the global optimizer step.

    Args:
        stages: Stages by name, in the order of training.

    Raises:
        ZooError: No stage has steps.
    """

    def __init__(self, stages: Mapping[str, Stage]) -> None:
        if not any(stage.is_used for stage in stages.values()):
            raise ZooError("A training needs at least one stage with steps or passes.")
        self.stages = tuple(replace(stage, name=name) for name, stage in stages.items())

    def shared(self, batches: int) -> "Curriculum":
        """Return the curriculum with the examples or seconds of a step divided among its batches.

        Args:
            batches: Number of batches per optimizer step, over all ranks.

        Raises:
            ZooError: ``examples`` of a stage is not divisible by ``batches``.
        """
        for stage in self.stages:
            if stage.examples is not None and stage.examples % batches:
                raise ZooError(
                    f"The {stage.examples} examples of a step of stage {stage.name!r} cannot be "
                    f"divided among {batches} batches (trainer.devices times "
                    "trainer.accumulate_grad_batches)."
                )

        shared_stages = {}
        for stage in self.stages:
            examples = None if stage.examples is None else stage.examples // batches
            seconds = stage.batch_seconds
            if stage.step_seconds is not None:
                seconds = stage.step_seconds / batches
            shared_stages[stage.name] = replace(
                stage, examples=examples, batch_seconds=seconds, step_seconds=None
            )
        return Curriculum(shared_stages)

    def counted(self, steps_per_pass: Mapping[str, float]) -> "Curriculum":
        """Return the curriculum with steps instead of passes.

        Args:
            steps_per_pass: Number of steps of one pass, by name of the stage, for each stage with
                passes.
        """
        stages = {}
        for stage in self.stages:
            if stage.passes is not None:
                steps = round(stage.passes * steps_per_pass.get(stage.name, 0.0))
                stage = replace(stage, passes=None, steps=max(int(stage.is_used), steps))
            stages[stage.name] = stage
        return Curriculum(stages)

    def at_rate(self, learning_rate: float) -> "Curriculum":
        """Return the curriculum with the same peak learning rate in all stages."""
        return Curriculum({s.name: replace(s, learning_rate=learning_rate) for s in self.stages})

    @property
    def steps(self) -> int:
        """Number of optimizer steps of all stages together."""
        return sum(stage.steps for stage in self.stages)

    @property
    def multipliers(self) -> set[int]:
        """All latency multipliers that a batch may have."""
        return {
            m
            for stage in self.stages
            if stage.is_used
            for m in stage.stretches.possible_multipliers
        }

    def at(self, step: int) -> tuple[Stage, int]:
        """Return the stage of a global step and the step within the stage.

        A global step after the last stage belongs to the last stage.
        """
        for stage in self.stages[:-1]:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        return self.stages[-1], step
