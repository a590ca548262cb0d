"""Schedule of a stage: which examples each batch of each step has.

Every example of a pass is in one batch. The batches of a step, one for each rank and accumulation,
have about equal amounts of work. The schedule is a pure function of its arguments, so all ranks and
all data workers have the same schedule, and a resumed run continues in the middle of a pass.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from zoo.base.types import Seconds
from zoo.data.sampling import Example, Pass, Sampler

ALIKE = 0.05  # largest random change of a duration before sorting, as a share of the duration


@dataclass(frozen=True, slots=True)
class Limits:
    """Size of one batch.

    Attributes:
        seconds: Number of examples times the longest duration, in seconds.
        examples: Maximum number of examples. None sets no maximum.
    """

    seconds: Seconds
    examples: int | None = None

    def count(self, duration: Seconds) -> int:
        """Return the number of examples of ``duration`` seconds in a batch, at least 1."""
        count = max(1, round(self.seconds / duration))
        return count if self.examples is None else min(count, self.examples)


def balance_steps(
    examples: Pass, limits: Limits, *, batches: int, random: np.random.Generator
) -> list[list[np.ndarray]]:
    """Divide the examples of a pass among steps, and the examples of a step among batches.

    The examples of a step are of one group and of similar durations.

    Args:
        examples: Examples of the pass.
        limits: Size of one batch.
        batches: Number of batches per step.
        random: Only source of randomness.

    Returns:
        For each step, the indices of the examples of each of its ``batches`` batches. If fewer than
        ``batches`` examples are left for the last step of a group, some batches are empty.
    """
    # Durations are changed slightly before sorting, so that each pass has other batches.
    durations = examples.seconds * random.uniform(1 - ALIKE, 1 + ALIKE, len(examples))
    order = np.lexsort((-durations, examples.groups))
    ends = np.flatnonzero(np.diff(examples.groups[order], append=examples.groups.max() + 1)) + 1

    steps: list[list[np.ndarray]] = []
    start = 0
    for end in ends.tolist():
        while start < end:
            count = batches * limits.count(durations[order[start]])
            left = end - start
            # Make two steps of equal size instead of a full and a small one.
            if count < left < 1.5 * count:
                count = batches * -(-left // (2 * batches))
            chosen = order[start : min(start + count, end)]
            start += len(chosen)
            # Batch i of n gets the examples i, i + n, i + 2 n, ... of the step; which batch gets
            # the longest examples is random.
            steps.append([chosen[index::batches] for index in random.permutation(batches)])
    return [steps[step_index] for step_index in random.permutation(len(steps))]


def one_pass(
    sampler: Sampler, limits: Limits, *, batches: int, batch: int, seed: Sequence[int]
) -> Iterator[tuple[int, Sequence[Example], bool]]:
    """Yield the batches of one pass over each kind of examples.

    Args:
        sampler: Lists and makes the examples.
        limits: Size of one batch.
        batches: Number of batches per step: ranks.
        batch: Index of the batch of each step that is yielded.
        seed: Seed of the pass.

    Yields:
        Kind, examples, and whether the batch counts; see ``Schedule.counts``. All parts have the
        same number of batches. The examples of all parts together do not depend on ``batches``.
    """
    for kind in range(len(sampler.kinds)):
        random = np.random.default_rng([*seed, kind + 1])
        examples = sampler.plan(kind, random)
        for step in balance_steps(examples, limits, batches=batches, random=random):
            made: list[Example] = []
            for row in _rows(step, batch):
                generator = np.random.default_rng([*seed, kind + 1, row + 1])
                made += sampler.examples(kind, examples.positions[row : row + 1], generator)
            yield kind, made, len(step[batch]) > 0


def _rows(batches: Sequence[np.ndarray], batch: int) -> np.ndarray:
    """Return the rows of a batch, or one row of another batch if it is empty."""
    if len(batches[batch]):
        return batches[batch]
    return next(rows for rows in batches if len(rows))[:1]


@dataclass(slots=True)
class _Progress:
    """Steps of the current pass over the examples of one kind.

    A pass of a sampler with several windows is planned window by window. ``number`` counts windows
    then, and the other attributes are those of the window.

    Attributes:
        sampler: Sampler of the pass.
        number: Number of the pass, counted from 0. -1 before the first pass.
        first: Number of steps of this kind before the pass.
        steps: Rows of ``Pass.positions`` of each batch of each step.
        seconds: Duration of all examples of the pass, in seconds.
    """

    sampler: Sampler
    number: int = -1
    first: int = 0
    steps: list[list[np.ndarray]] = field(default_factory=list)
    seconds: Seconds = 0.0


class Schedule:
    """Batches of one stage, by step.

    A pass over each kind of examples follows the previous pass over the kind. The shares of the
    sampler determine the kind of each step: they are shares of the audio. Batches of limited
    duration have about equal durations, whatever their kind. Batches of a limited number of
    examples have not, so kinds of short examples have more steps.

    Args:
        sampler: Lists and makes the examples.
        limits: Size of one batch.
        steps: Number of steps of the stage.
        batches: Number of batches per step: ranks times accumulated batches.
        seed: Seed; stages of a training have different seeds.
    """

    def __init__(
        self, sampler: Sampler, limits: Limits, *, steps: int, batches: int, seed: Sequence[int]
    ) -> None:
        self._sampler = sampler
        self._limits = limits
        self._batches = batches
        self._seed = list(seed)
        # Shares of the audio; below, they become shares of the steps.
        shares = np.array(sampler.kinds)
        self._progress = [_Progress(sampler) for _ in shares]
        if limits.examples is not None and len(shares) > 1:
            shares = shares / [self._seconds_per_step(kind) for kind in range(len(shares))]
            shares /= shares.sum()
        self._shares = shares
        self._kinds = np.random.default_rng(self._seed).choice(len(shares), size=steps, p=shares)
        # For each step, the number of earlier steps of the same kind.
        self._earlier = np.zeros(steps, dtype=int)
        for kind in range(len(shares)):
            is_kind = self._kinds == kind
            self._earlier[is_kind] = np.arange(is_kind.sum())

    def __len__(self) -> int:
        return len(self._kinds)

    def passes(self, step: int) -> float:
        """Return the number of passes before ``step``, the mean over the kinds by their shares."""
        finished = []
        for kind in range(len(self._progress)):
            earlier = int((self._kinds[:step] == kind).sum())
            progress = self._advance(kind, earlier)
            windows = progress.number + (earlier - progress.first) / len(progress.steps)
            finished.append(windows / self._sampler.windows(kind))
        return float(np.average(finished, weights=self._sampler.kinds))

    @property
    def steps_per_pass(self) -> float:
        """Number of steps after which ``passes`` has grown by 1, by the first pass of each kind.

        With several windows it is an estimate from the first one.
        """
        counts = [
            len(self._advance(kind, 0).steps) * self._sampler.windows(kind)
            for kind in range(len(self._progress))
        ]
        return float(1.0 / (np.array(self._sampler.kinds) * self._shares / counts).sum())

    def batch_rows(self, step: int) -> tuple[int, list[np.ndarray]]:
        """Return the kind of the examples of a step, and the rows of each of its batches."""
        kind, index = int(self._kinds[step]), int(self._earlier[step])
        progress = self._advance(kind, index)
        return kind, progress.steps[index - progress.first]

    def counts(self, step: int, batch: int) -> bool:
        """Return whether a batch of a step counts in the loss.

        If a step has fewer examples than batches, a batch without an example of its own has one of
        another batch and does not count.
        """
        _, rows = self.batch_rows(step)
        return len(rows[batch]) > 0

    def examples(self, step: int, batch: int) -> Sequence[Example]:
        """Return the examples of one of the batches of a step, at least one."""
        kind, rows = self.batch_rows(step)
        # NumPy ignores zeros at the end of a list of seeds, so batches are counted from 1.
        random = np.random.default_rng([*self._seed, step, batch + 1])
        return self._progress[kind].sampler.examples(kind, _rows(rows, batch), random)

    def _seconds_per_step(self, kind: int) -> Seconds:
        """Return the mean duration of the examples of a step in the first pass over a kind."""
        progress = self._advance(kind, 0)
        return progress.seconds / len(progress.steps)

    def _advance(self, kind: int, index: int) -> _Progress:
        """Return the pass that has the step ``index`` of a kind."""
        progress = self._progress[kind]
        if index < progress.first:
            progress.number, progress.first, progress.steps = -1, 0, []
        while index >= progress.first + len(progress.steps):
            progress.first += len(progress.steps)
            progress.number += 1
            random = np.random.default_rng([*self._seed, kind + 1, progress.number + 1, 1])
            progress.sampler = self._sampler.window(progress.number)
            examples = progress.sampler.plan(kind, random)
            steps = balance_steps(examples, self._limits, batches=self._batches, random=random)
            progress.steps = [[examples.positions[rows] for rows in step] for step in steps]
            progress.seconds = float(examples.seconds.sum())
        return progress
