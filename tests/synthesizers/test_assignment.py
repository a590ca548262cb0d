"""Units to tokens and the cut of the waveform, on hand-made attention and durations."""

import itertools

import pytest
import torch
from torch import Tensor

from zoo.synthesizers.assignment import (
    TokenDiscard,
    assign_units,
    monotone_assignment,
    new_unit_mask,
    select_samples,
    split_units,
    unit_token_scores,
)


def looks(*positions: int, among: int) -> Tensor:
    """(units, positions): each unit attends to one position with 0.7, evenly to the rest."""
    rows = torch.full((len(positions), among), 0.3 / (among - 1))
    return rows.scatter(1, torch.tensor(positions)[:, None], 0.7)


def tokens_of(attention: Tensor, *, opening: int = 2, tokens: int, offset: int = 0) -> list[int]:
    scores = unit_token_scores(
        attention, opening=opening, tokens=tokens, offset=offset, normalisation="none"
    )
    return assign_units(scores, assignment="argmax").tolist()


def test_a_unit_belongs_to_the_token_whose_state_it_attends_to_most() -> None:
    assert tokens_of(looks(2, 2, 3, 4, 4, among=5), tokens=3) == [0, 0, 1, 2, 2]


def test_with_offset_minus_one_the_state_that_predicts_a_token_is_its_own() -> None:
    assert tokens_of(looks(1, 1, 2, 3, 3, among=5), tokens=3, offset=-1) == [0, 0, 1, 2, 2]


@pytest.mark.parametrize(("offset", "last"), [(0, [0, 0, 0, 1, 2, 2]), (-1, [0, 0, 1, 2, 2, 2])])
def test_opening_and_closing_belong_to_the_nearest_token(offset: int, last: list[int]) -> None:
    assert tokens_of(looks(0, 1, 2, 3, 4, 5, among=6), tokens=3, offset=offset) == last


def test_one_token_takes_every_unit() -> None:
    assert tokens_of(looks(0, 2, 3, among=4), tokens=1) == [0, 0, 0]
    assert monotone_assignment(torch.rand(4, 1)).tolist() == [0, 0, 0, 0]


def test_no_unit_is_no_unit() -> None:
    for assignment in ("argmax", "monotone"):
        scores = unit_token_scores(
            torch.zeros(0, 5), opening=2, tokens=3, offset=0, normalisation="none"
        )
        assert assign_units(scores, assignment=assignment).tolist() == []
    assert (
        select_samples(
            torch.ones(0), torch.ones(0).bool(), torch.ones(0).long(), unit_samples=320
        ).numel()
        == 0
    )


def test_a_position_that_every_unit_attends_to_is_divided_out() -> None:
    attention = torch.tensor([[0.6, 0.3, 0.1], [0.6, 0.1, 0.3], [0.6, 0.1, 0.3]])
    for normalisation, expected in (
        ("none", [0, 0, 0]),
        ("share", [1, 2, 2]),
        ("z_score", [1, 2, 2]),
    ):
        scores = unit_token_scores(
            attention, opening=0, tokens=3, offset=0, normalisation=normalisation
        )
        assert assign_units(scores, assignment="argmax").tolist() == expected, normalisation


def test_weights_of_half_precision_and_of_zero_are_scored() -> None:
    scores = unit_token_scores(
        torch.eye(3, dtype=torch.bfloat16), opening=0, tokens=3, offset=0, normalisation="none"
    )
    assert scores.dtype == torch.float32
    assert monotone_assignment(scores).tolist() == [0, 1, 2]


def test_monotone_overrules_a_unit_that_attends_backwards() -> None:
    attention = looks(0, 0, 2, 0, 1, 1, 3, among=4)
    scores = unit_token_scores(attention, opening=0, tokens=4, offset=0, normalisation="none")
    assert assign_units(scores, assignment="argmax").tolist() == [0, 0, 2, 0, 1, 1, 3]
    assert assign_units(scores, assignment="monotone").tolist() == [0, 0, 0, 0, 1, 1, 3]


def test_monotone_is_the_best_of_all_never_falling_sequences() -> None:
    generator = torch.Generator().manual_seed(0)
    for units, tokens in ((1, 3), (4, 1), (5, 3), (6, 4)):
        scores = torch.randn(units, tokens, generator=generator, dtype=torch.float64)
        paths = itertools.combinations_with_replacement(range(tokens), units)
        best = max(
            paths,
            key=lambda path: sum(float(scores[unit, token]) for unit, token in enumerate(path)),
        )
        assert tuple(monotone_assignment(scores).tolist()) == best


@pytest.mark.parametrize(
    ("tokens", "discard", "expected"),
    [
        ([0, 0, 1, 2, 2], "count", "..###"),  # in order, the four agree
        ([0, 0, 1, 2, 2], "last", "..###"),
        ([0, 0, 1, 2, 2], "first", "..###"),
        ([0, 0, 1, 2, 2], "keep_new", "..###"),
        ([0, 1, 0, 2, 0, 2], "count", "...###"),  # three units of history, wherever they are
        ([0, 1, 0, 2, 0, 2], "last", ".....#"),
        ([0, 1, 0, 2, 0, 2], "first", ".#####"),
        ([0, 1, 0, 2, 0, 2], "keep_new", ".#.#.#"),
        # all of history
        *[([0, 0, 0], discard, "...") for discard in ("count", "last", "first", "keep_new")],
        # all new
        *[([1, 2, 1], discard, "###") for discard in ("count", "last", "first", "keep_new")],
        *[([], discard, "") for discard in ("count", "last", "first", "keep_new")],
    ],
)
def test_units_of_history_are_cut(tokens: list[int], discard: TokenDiscard, expected: str) -> None:
    keep = new_unit_mask(torch.tensor(tokens, dtype=torch.long), old=1, discard=discard)
    assert "".join("#" if unit else "." for unit in keep.tolist()) == expected


@pytest.mark.parametrize("discard", ["count", "last", "first", "keep_new"])
def test_without_history_nothing_is_cut(discard: TokenDiscard) -> None:
    assert new_unit_mask(torch.tensor([0, 1, 0]), old=0, discard=discard).all()


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([0, 0, 1, 2, 2], "...##"),  # in order
        ([0, 1, 2, 0, 3, 3], "..####"),  # one new unit that looks back: a count cuts it off
        ([0, 1, 3, 0, 1, 2, 3], ".....##"),  # one old unit that looks ahead: a count repeats
        ([0, 1, 0], "..."),
        ([2, 3, 2], "###"),
        ([], ""),
    ],
)
def test_units_are_split_where_the_attention_changes_sides(
    positions: list[int], expected: str
) -> None:
    """Two tokens of history, two new ones."""
    attention = looks(*positions, among=4)
    scores = unit_token_scores(attention, opening=0, tokens=4, offset=0, normalisation="none")
    keep = split_units(scores, old=2)
    assert "".join("#" if unit else "." for unit in keep.tolist()) == expected


def test_a_split_counts_all_tokens_of_a_side_and_how_clear_a_unit_is() -> None:
    def split(*rows: list[float], old: int) -> list[bool]:
        attention = torch.tensor(rows)
        scores = unit_token_scores(attention, opening=0, tokens=3, offset=0, normalisation="none")
        return split_units(scores, old=old).tolist()

    # the largest weight of the first unit is that of the new token, but history has more
    assert split([0.3, 0.3, 0.4], [0.1, 0.1, 0.8], old=2) == [False, True]
    # the third unit is clearly of history, the second hardly of the new tokens
    assert split([0.9, 0.05, 0.05], [0.4, 0.3, 0.3], [0.9, 0.05, 0.05], old=1) == [False] * 3
    assert split([0.9, 0.05, 0.05], old=0) == [True]
    assert split([0.05, 0.05, 0.9], old=3) == [False]


def test_the_cut_is_exact_where_durations_are_not_one() -> None:
    wave = torch.arange(7 * 4).float()
    durations = torch.tensor([2, 1, 3, 1])
    keep = torch.tensor([False, False, True, True])
    assert select_samples(wave, keep, durations, unit_samples=4).tolist() == wave[3 * 4 :].tolist()
    # "discarded units x 320" cuts a frame less here: some of the history is played again
    assert (
        select_samples(wave, keep, torch.ones(4).long(), unit_samples=4).tolist()
        == wave[2 * 4 :].tolist()
    )


def test_units_kept_here_and_there_are_joined() -> None:
    wave = torch.arange(12).float()
    keep = torch.tensor([True, False, True])
    assert select_samples(wave, keep, torch.tensor([1, 2, 1]), unit_samples=3).tolist() == [
        0,
        1,
        2,
        9,
        10,
        11,
    ]


def test_samples_beyond_the_units_belong_to_the_last() -> None:
    wave = torch.arange(5).float()
    assert select_samples(
        wave, torch.tensor([False, True]), torch.tensor([1, 1]), unit_samples=2
    ).tolist() == [2, 3, 4]
    assert select_samples(
        wave, torch.tensor([True, False]), torch.tensor([1, 1]), unit_samples=2
    ).tolist() == [0, 1]
    assert select_samples(
        wave[:3], torch.tensor([False, True]), torch.tensor([1, 1]), unit_samples=2
    ).tolist() == [2]
