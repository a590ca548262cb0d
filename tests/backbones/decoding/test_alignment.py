"""Hand-made matrices."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.decoding import alignment
from zoo.backbones.decoding.alignment import (
    AlignmentConfig,
    EveryHead,
    median_filter,
    z_score,
    z_score_past,
)
from zoo.base.errors import ZooError

OPENING, PREFIX, NEW = 2, 2, 3
FRAMES = 4


def rows(positions: int, heads: int = 1) -> Tensor:
    """(positions, heads, frames) weights whose digits are their position, head and frame."""
    numbers = (
        torch.arange(positions)[:, None, None] * 100
        + torch.arange(heads)[:, None] * 10
        + torch.arange(FRAMES)
    )
    return numbers.double()


def positions(alignment: Tensor) -> list[int]:
    return (alignment[:, 0] / 100).tolist()


@pytest.mark.parametrize(
    ("query", "whole", "cut"),
    [
        ("predicting", [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ("own", [2, 3, 4, 5, 6], [2, 3, 4, 5, 5]),  # the last token was not fed: its predicting row
        ("mixed", [2, 3, 3, 4, 5], [2, 3, 3, 4, 5]),
    ],
)
def test_whose_attention_is_a_tokens(query: Any, whole: list[int], cut: list[int]) -> None:
    config = AlignmentConfig(query=query)
    fed = OPENING + PREFIX + NEW
    assert positions(config.align(rows(fed), opening=OPENING, prefix=PREFIX, new=NEW)) == whole
    assert positions(config.align(rows(fed - 1), opening=OPENING, prefix=PREFIX, new=NEW)) == cut


@pytest.mark.parametrize("normalisation", ["none", "z_score", "z_score_past"])
def test_every_head_is_aligned_by_itself(normalisation: Any) -> None:
    given = {"opening": OPENING, "prefix": PREFIX, "new": NEW}
    weights = torch.rand(OPENING + PREFIX + NEW, 3, FRAMES, dtype=torch.double)
    every = EveryHead(normalisation=normalisation, median_filter=3)
    assert every.chosen(layers=2, heads=3) == {0: None, 1: None}
    aligned = every.align(weights, **given)
    single = AlignmentConfig(normalisation=normalisation, median_filter=3)
    for head in range(3):
        expected = single.align(weights[:, head : head + 1], **given)
        assert torch.equal(aligned[:, head], expected)


@pytest.mark.parametrize("query", ["predicting", "own", "mixed"])
@pytest.mark.parametrize("normalisation", ["none", "z_score", "z_score_past"])
@pytest.mark.parametrize("width", [0, 3])
def test_one_row_and_no_row(query: Any, normalisation: Any, width: int) -> None:
    config = AlignmentConfig(query=query, normalisation=normalisation, median_filter=width)
    none = config.align(rows(2), opening=2, prefix=0, new=0)
    assert none.shape == (0, FRAMES)
    for fed, prefix, new in ((2, 0, 1), (3, 0, 1), (3, 1, 0)):
        own = query == "own" or (query == "mixed" and prefix == 1)
        position = 2 if own and fed == 3 else 1
        frames = [1, 1, 2, 2] if width else [0, 1, 2, 3]  # the medians of mirrored threes
        expected = [100 * position + frame for frame in frames]
        if normalisation == "z_score_past" and position == 2:
            expected = [1] * FRAMES  # of 0, 100 and 200; two rows are left as they are
        one = config.align(rows(fed), opening=2, prefix=prefix, new=new)
        assert one.tolist() == [expected], (fed, prefix)


def test_heads_are_averaged_first_or_last() -> None:
    looked = torch.tensor(
        [[[0.0, 1.0], [3.0, 1.0]], [[2.0, 1.0], [5.0, 9.0]], [[4.0, 1.0], [7.0, 8.0]]]
    )
    kept = {"opening": 1, "prefix": 0, "new": 3}
    mean = AlignmentConfig().align(looked, **kept)
    assert mean.tolist() == [[1.5, 1.0], [3.5, 5.0], [5.5, 4.5]]
    first = AlignmentConfig(normalisation="z_score").align(looked, **kept)
    last = AlignmentConfig(normalisation="z_score", average="last").align(looked, **kept)
    torch.testing.assert_close(first, z_score(mean[:, None])[:, 0])
    torch.testing.assert_close(last, z_score(looked).mean(dim=1))
    assert not torch.allclose(first, last)


def test_z_scores_are_over_tokens_and_never_nan() -> None:
    looked = torch.tensor([[1.0, 5.0, 0.1], [2.0, 5.0, 0.1], [3.0, 5.0, 0.1]])[:, None]
    assert z_score(looked)[:, 0].tolist() == [[-1, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert z_score(looked[:1]).equal(looked[:1])
    assert z_score(looked[:2]).equal(looked[:2])  # scores of two are a tie everywhere
    assert z_score(looked[:0]).shape == (0, 1, 3)


def test_z_scores_over_the_tokens_so_far_and_the_opening() -> None:
    """Each row has the statistics of the decoder positions that existed when it was computed."""
    looked = torch.tensor([[3.0, 1.0], [1.0, 0.0], [0.0, 2.0], [9.0, 9.0], [1.0, 2.0]])[:, None]
    rows = AlignmentConfig(normalisation="z_score_past").align(looked, opening=3, prefix=1, new=1)
    expected = [z_score(looked[:3])[2, 0], z_score(looked[:4])[3, 0]]
    torch.testing.assert_close(rows, torch.stack(expected))
    tokens = AlignmentConfig(normalisation="z_score").align(looked, opening=2, prefix=1, new=2)
    assert tokens.equal(z_score(looked[1:4])[:, 0])


def test_z_scores_so_far_are_exact_and_never_nan() -> None:
    """Nearly equal weights beside large sums, as a frame that all tokens attend to."""
    looked = 0.9 + 1e-6 * torch.rand(300, 2, 4, generator=torch.Generator().manual_seed(0))
    looked[..., 3] = 0.25
    rows = z_score_past(looked)
    torch.testing.assert_close(rows[-1], z_score(looked.double())[-1].float())
    assert rows[5, :, 3].tolist() == [0, 0]
    assert z_score_past(looked[:2]).equal(looked[:2])
    assert z_score_past(looked[:0]).shape == (0, 2, 4)


def test_median_filter() -> None:
    row = torch.tensor([[9.0, 1.0, 2.0, 8.0, 3.0]])
    # 1 9 1, 9 1 2, 1 2 8, 2 8 3, 8 3 8
    assert median_filter(row, 3).tolist() == [[1.0, 2.0, 2.0, 3.0, 8.0]]
    assert median_filter(row, 1).equal(row)
    assert median_filter(row[:, :2], 5).equal(row[:, :2])  # too short to be mirrored
    assert median_filter(row[:0], 3).shape == (0, 5)


@pytest.mark.parametrize("width", range(1, 10, 2))
@pytest.mark.parametrize("narrow", [False, True])
def test_median_filter_is_the_median_of_each_window(
    width: int, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without sorting, of blocks of rows, with ties, and of rows with padding."""
    monkeypatch.setattr(alignment, "BLOCK", 40)
    if narrow:
        monkeypatch.setattr(alignment, "WIDEST_PAIRWISE", 0)
    generator = torch.Generator().manual_seed(width)
    radius, lengths = width // 2, torch.arange(1, 16)
    weights = torch.randn(15, 2, 15, generator=generator).mul(3).round()
    filtered = median_filter(weights, width, lengths[:, None, None])
    for row, length in enumerate(lengths.tolist()):
        frames = weights[row, :, :length]
        expected = frames
        if length > radius:
            padded = F.pad(frames, (radius, radius), mode="reflect")
            expected = padded.unfold(-1, width, 1).median(dim=-1).values
        assert filtered[row, :, :length].equal(expected)
        assert median_filter(frames, width).equal(expected)
        assert median_filter(frames[0], width).equal(expected[0])


def test_last_frames_are_left_out_but_one_is_left() -> None:
    kept = {"opening": 1, "prefix": 1, "new": 1}
    assert AlignmentConfig(ignore_last=1).align(rows(2), **kept).tolist() == [
        [0, 1, 2],
        [100, 101, 102],
    ]
    assert AlignmentConfig(ignore_last=9).align(rows(2), **kept).tolist() == [[0], [100]]


def test_first_frames_get_the_smallest_weight() -> None:
    """Of the frames in a text of fewer frames, the last one keeps its weight."""
    looked = torch.tensor([[[9.0, 8.0, 1.0, 4.0, 2.0]], [[5.0, 9.0, 7.0, 0.0, 0.0]]])
    assert AlignmentConfig(ignore_first=2).filtered(looked).tolist() == [
        [1.0, 1.0, 1.0, 4.0, 2.0],
        [0.0, 0.0, 7.0, 0.0, 0.0],
    ]
    padded = AlignmentConfig(ignore_first=4).filtered(looked, torch.tensor([5, 3]))
    assert padded.tolist() == [[1.0, 1.0, 1.0, 1.0, 2.0], [0.0, 0.0, 7.0, 0.0, 0.0]]


def test_chosen_heads() -> None:
    every: dict[int, None] = {0: None, 1: None, 2: None}
    assert AlignmentConfig(layer="all").chosen(layers=3, heads=4) == every
    assert AlignmentConfig(layer=2).chosen(layers=3, heads=4) == {2: None}
    assert AlignmentConfig(layer=2, heads=[3, 0]).chosen(layers=3, heads=4) == {2: [3, 0]}
    assert AlignmentConfig(heads=[[1, 0], [2, 3], [1, 2]]).chosen(layers=3, heads=4) == {
        1: [0, 2],
        2: [3],
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 3}, r"names layer 3, but the decoder's layers are 0 to 2\."),
        ({"layer": -1}, "names layer -1"),
        ({"heads": [1, 4]}, r"names head 4 of layer 0, but its heads are 0 to 3\."),
        ({"heads": [[5, 0]]}, "names layer 5"),
        ({"heads": [[1, 7]]}, "names head 7 of layer 1"),
    ],
)
def test_a_layer_or_head_that_is_not_there_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(ZooError, match=message):
        AlignmentConfig(**settings).chosen(layers=3, heads=4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": []}, "at least one head"),
        ({"heads": [[1, 2, 3]]}, "heads"),
        ({"heads": [1, [2, 3]]}, "heads"),
        ({"median_filter": 4}, "odd number of frames"),
        ({"median_filter": -3}, "odd number of frames"),
        ({"ignore_last": -1}, "ignore_last"),
        ({"ignore_first": -1}, "ignore_first"),
        ({"layer": "every"}, "a number or all"),
        ({"layer": "all", "heads": [1]}, "pairs of a layer and a head"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ZooError, match=message):
        AlignmentConfig(**settings)
