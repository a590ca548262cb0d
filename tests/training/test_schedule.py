"""Every example of a pass is in one batch, and the batches of a step have equal work."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from zoo.data.sampling import Pass, Sampler
from zoo.training.schedule import Limits, Schedule, balance_steps


@dataclass(frozen=True)
class Numbered:
    """Example of a number and a duration."""

    number: int
    seconds: float


class Numbers(Sampler):
    """Sampler of numbers of one or several kinds, in two groups."""

    def __init__(self, seconds: np.ndarray, kinds: Sequence[float] = (1.0,)) -> None:
        self.seconds = seconds
        self._kinds = kinds

    @property
    def kinds(self) -> Sequence[float]:
        return self._kinds

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        numbers = np.arange(len(self.seconds))
        return Pass(numbers, self.seconds, numbers % 2)

    def examples(self, kind: int, positions: np.ndarray, random: np.random.Generator) -> list[Any]:
        return [Numbered(number, self.seconds[number]) for number in positions.tolist()]


def lognormal(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(1.5, 0.8, count)


def test_eight_ranks_have_equal_work_and_each_example_once() -> None:
    seconds = lognormal(100_000)
    groups = np.zeros(len(seconds), dtype=int)
    examples = Pass(np.arange(len(seconds)), seconds, groups)
    limits = Limits(60.0)
    steps = balance_steps(examples, limits, batches=8, random=np.random.default_rng(0))
    chosen = np.concatenate([part for step in steps for part in step])
    assert np.array_equal(np.sort(chosen), np.arange(len(seconds)))
    work = np.array(
        [[len(part) * max(seconds[part], default=0) for part in step] for step in steps]
    )
    assert (work.mean(axis=1) / work.max(axis=1)).mean() >= 0.95
    assert work.mean(axis=1).sum() / work.max(axis=1).sum() >= 0.95
    ordinary = work[[len(step[0]) > 1 for step in steps]]
    assert ordinary.max() <= 1.5 * limits.seconds


@pytest.mark.parametrize("parts", [1, 2, 8])
@pytest.mark.parametrize("count", [1, 5, 37, 400])
def test_a_pass_has_each_example_once(count: int, parts: int) -> None:
    schedule = Schedule(
        Numbers(lognormal(count)), Limits(30.0, examples=7), steps=400, batches=parts, seed=[3]
    )
    seen: list[int] = []
    step = 0
    while len(seen) < 3 * count:
        own: list[Any] = []
        for part in range(parts):
            examples: Any = schedule.examples(step, part)
            assert 1 <= len(examples) <= 7
            if schedule.counts(step, part):
                own += [one.number for one in examples]
        assert len({number % 2 for number in own}) == 1  # one group
        seen += own
        step += 1
    for number in range(3):
        assert sorted(seen[number * count : (number + 1) * count]) == list(range(count))


def test_passes_have_different_batches_in_a_different_order() -> None:
    schedule = Schedule(Numbers(lognormal(400)), Limits(30.0), steps=500, batches=1, seed=[3])
    first = next(step for step in range(500) if schedule.passes(step) == 1)
    steps = [
        {frozenset(one.number for one in schedule.examples(step, 0)) for step in steps}  # type: ignore[attr-defined]
        for steps in (range(first), range(first, 2 * first))
    ]
    assert len(steps[0] & steps[1]) < 0.2 * first


def test_a_schedule_continues_in_the_middle_of_a_pass() -> None:
    def schedule() -> Schedule:
        kinds = (0.7, 0.3)
        return Schedule(
            Numbers(lognormal(90), kinds), Limits(30.0), steps=100, batches=2, seed=[3, 1]
        )

    whole, resumed = schedule(), schedule()
    expected = [whole.examples(step, part) for step in range(100) for part in (0, 1)]
    assert [resumed.examples(step, 1) for step in range(60, 100)] == expected[121::2]
    assert resumed.examples(2, 0) == expected[4]  # an earlier step again
    assert 0 < resumed.passes(50) < resumed.passes(100)


class Halves(Numbers):
    """Examples of the second kind have half the duration."""

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        whole = super().plan(kind, random)
        return Pass(whole.positions, whole.seconds / (1 + kind), whole.groups)


@pytest.mark.parametrize("examples", [None, 4])
def test_kinds_have_their_shares_of_the_audio(examples: int | None) -> None:
    """If the number of examples is limited, shorter examples need more steps."""
    sampler = Halves(lognormal(400), kinds=(0.8, 0.2))
    schedule = Schedule(sampler, Limits(30.0, examples), steps=2000, batches=2, seed=[0])
    audio = np.zeros(2)
    steps = np.zeros(2)
    for step in range(len(schedule)):
        kind, parts = schedule.batch_rows(step)
        steps[kind] += 1
        audio[kind] += sum(float(sampler.seconds[part].sum()) for part in parts) / (1 + kind)
    assert audio[1] / audio.sum() == pytest.approx(0.2, abs=0.04)
    if examples:
        assert steps[1] / steps.sum() == pytest.approx(1 / 3, abs=0.04)  # (0.2 / 1) / (0.8 / 2)


@pytest.mark.parametrize("kinds", [(1.0,), (0.5, 0.5), (0.75, 0.25)])
@pytest.mark.parametrize("examples", [None, 8])
def test_the_steps_of_a_pass_are_those_of_the_schedule(
    kinds: tuple[float, ...], examples: int | None
) -> None:
    sampler, limits = Numbers(lognormal(600), kinds), Limits(60.0, examples)
    first = Schedule(sampler, limits, steps=0, batches=2, seed=[0])
    steps = round(first.steps_per_pass)
    schedule = Schedule(sampler, limits, steps=3 * steps, batches=2, seed=[0])
    assert schedule.passes(steps) == pytest.approx(1.0, rel=0.1)
    assert schedule.passes(3 * steps) == pytest.approx(3.0, rel=0.1)
