"""Texts that loop."""

import pytest
import torch

from zoo.backbones.decoding.continuation import Answer
from zoo.backbones.decoding.loops import loop_period, loop_stop, without_loop


@pytest.mark.parametrize(
    ("ids", "period"),
    [
        ([7, 1, 2, 1, 2, 1, 2, 1, 2], 2),
        ([1, 2, 1, 2, 1, 2], None),  # six ids
        ([5] * 8, 1),
        ([5] * 7, None),
        ([1, 2, 3, 4] * 3, 4),
        ([1, 2, 3, 4] * 2, None),  # two copies
        ([9, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 8], None),  # the loop has ended
        ([1, 2, 3] * 3, 3),
        ([1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3], 1),
        ([], None),
    ],
)
def test_a_loop_is_an_n_gram_in_a_row(ids: list[int], period: int | None) -> None:
    assert loop_period(ids, 3) == period
    for begin in range(len(ids) + 1):
        earlier, tokens = ids[:begin], ids[begin:]
        assert loop_stop(earlier, 3, None)(tokens) == (period is not None)


@pytest.mark.parametrize("unfed", [0, 1])
@pytest.mark.parametrize(
    ("earlier", "tokens", "remaining"),
    [
        ([], [7, 1, 2, 1, 2, 1, 2, 1, 2], [7, 1, 2]),
        ([7, 1], [2, 1, 2, 1, 2, 1, 2], [2]),
        ([7, 1, 2, 1, 2], [1, 2, 1, 2], []),  # the loop began in the kept text
        ([7], [1, 2, 3], [1, 2, 3]),
    ],
)
def test_all_copies_but_the_first_are_removed(
    earlier: list[int], tokens: list[int], remaining: list[int], unfed: int
) -> None:
    answer = Answer(tokens, False, torch.tensor(tokens[: len(tokens) - unfed]))
    shorter = without_loop(answer, earlier, 3)
    assert shorter.tokens == remaining
    assert shorter.looped == (tokens != remaining)
    fed = remaining[: max(len(remaining) - unfed, 0)]
    assert shorter.generated.tolist() == fed


def test_another_stop_condition_applies_too() -> None:
    stop = loop_stop([], 3, lambda tokens: len(tokens) == 2)
    assert [stop([1] * count) for count in (1, 2, 3)] == [False, True, False]
