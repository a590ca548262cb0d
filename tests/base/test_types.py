"""Small rules of the core types."""

import pytest
import torch

from zoo.base.types import Cut, Decision, Hypothesis
from zoo.streaming.session import empty_token_ids


def hypothesis(starts: str, *, prefix: int = 0, finished: bool = False) -> Hypothesis:
    """``starts``: "w" where a word begins, "." where it goes on."""
    words = torch.tensor([start == "w" for start in starts], dtype=torch.bool)
    return Hypothesis(
        torch.zeros(len(starts) - prefix, dtype=torch.long),
        words,
        prefix_length=prefix,
        finished=finished,
    )


@pytest.mark.parametrize(
    ("starts", "prefix", "finished", "tokens", "whole"),
    [
        ("w.w.", 0, True, 4, 4),
        ("w.w.", 0, False, 4, 2),
        ("w.w.", 0, True, 3, 2),
        ("w.w.", 0, False, 99, 2),
        ("w.w.", 0, True, 99, 4),
        ("w...", 0, False, 3, 0),
        # the prefix ends within a word, which the first new token completes
        ("ww.w", 2, False, 2, 1),
        ("ww.w", 2, True, 2, 2),
        ("ww", 2, True, 0, 0),
        ("w", 0, True, 0, 0),
    ],
)
def test_whole_words(starts: str, prefix: int, finished: bool, tokens: int, whole: int) -> None:
    assert hypothesis(starts, prefix=prefix, finished=finished).floor_to_word(tokens) == whole


@pytest.mark.parametrize(
    ("starts", "prefix", "finished", "words", "tokens"),
    [
        ("w.w.w", 0, False, 1, 2),
        ("w.w.w", 0, False, 2, 4),
        ("w.w.w", 0, False, 3, 4),
        ("w.w.w", 0, True, 3, 5),
        ("w.w.w", 0, True, 9, 5),
        ("w.w.w", 0, True, 0, 0),
        ("w.w.w", 0, True, -1, 0),
        ("ww..w", 2, False, 1, 2),
        ("w", 1, True, 1, 0),
    ],
)
def test_first_words(starts: str, prefix: int, finished: bool, words: int, tokens: int) -> None:
    assert (
        hypothesis(starts, prefix=prefix, finished=finished).tokens_in_first_words(words) == tokens
    )


def test_attended_frames_need_an_alignment() -> None:
    with pytest.raises(ValueError, match="alignment"):
        _ = hypothesis("w").attended_frames
    aligned = Hypothesis(
        empty_token_ids(),
        torch.ones(2, dtype=torch.bool),
        2,
        alignment=torch.tensor([[0.2, 0.7], [0.9, 0]]),
    )
    assert aligned.attended_frames.tolist() == [1, 0]


@pytest.mark.parametrize("cut", [None, Cut(), Cut(tokens=3)])
def test_a_repeated_request_needs_a_cut_that_makes_progress(cut: Cut | None) -> None:
    with pytest.raises(ValueError, match="again"):
        Decision(write=0, cut=cut, repeat=True)


def test_a_cut_of_nothing_is_false() -> None:
    assert [bool(cut) for cut in (Cut(), Cut(tokens=1), Cut(frames=1))] == [False, True, True]
