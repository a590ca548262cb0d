"""Tensor rules against a plain loop over the ids of each row."""

import random

import pytest
import torch

from zoo.backbones.decoding.continuation import SearchContext
from zoo.backbones.decoding.rules import RepetitionControls, SearchRules

VOCABULARY = 7


def following(ids: list[int], text: list[int], size: int) -> list[int]:
    """Ids that would complete an n-gram of ``text`` after the last ids."""
    if size == 0 or len(ids) < size - 1:
        return []
    tail = ids[len(ids) - size + 1 :]
    starts = range(len(text) - size + 1)
    return [text[start + size - 1] for start in starts if text[start : start + size - 1] == tail]


def plain(
    controls: RepetitionControls, row: list[float], context: SearchContext, answer: list[int]
) -> list[float]:
    """Scores of one row, by definition."""
    ids = (context.earlier if controls.compared == "text" else context.prompt) + answer
    forbidden = following(ids, ids, controls.no_repeat_ngram)
    if controls.compared == "prompt":
        forbidden += following(ids, context.earlier, controls.no_repeat_ngram)
    scores = [
        score * controls.penalty if token in ids else score for token, score in enumerate(row)
    ]
    return [-torch.inf if token in forbidden else score for token, score in enumerate(scores)]


@pytest.mark.parametrize("compared", ["text", "prompt"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("penalty", [1.0, 1.5])
def test_all_rows_at_once_are_each_row_alone(compared: str, size: int, penalty: float) -> None:
    """Rows of very different lengths, empty ones among them, while ids are appended."""
    if compared == "prompt" and size == 1:
        pytest.skip("refused by SearchConfig")
    controls = RepetitionControls(size, penalty, compared)
    chance = random.Random(size)
    for trial in range(30):
        lengths = [chance.choice([0, 1, 2, 4, 30]) for _ in range(4)]
        contexts = [
            SearchContext(
                [chance.randrange(VOCABULARY) for _ in range(length)],
                [chance.randrange(VOCABULARY) for _ in range(chance.choice([0, 1, length]))],
            )
            for length in lengths
        ]
        answers = [[chance.randrange(VOCABULARY) for _ in range(trial % 3)] for _ in lengths]
        log_probs = torch.randn(4, VOCABULARY, generator=torch.Generator().manual_seed(trial))
        rules = SearchRules(controls, contexts, log_probs=log_probs, answers=answers)
        for _ in range(4):
            scores = rules.scores(log_probs)
            expected = [
                plain(controls, row, context, answer)
                for row, context, answer in zip(log_probs.tolist(), contexts, answers, strict=True)
            ]
            torch.testing.assert_close(scores, torch.tensor(expected))
            tokens = [chance.randrange(VOCABULARY) for _ in range(4)]
            parents = [chance.randrange(4) for _ in range(4)]
            contexts = [contexts[row] for row in parents]
            answers = [[*answers[row], token] for row, token in zip(parents, tokens, strict=True)]
            rules.select(torch.tensor(parents))
            rules.append(torch.tensor(tokens))


def test_without_constraints_nothing_is_copied() -> None:
    log_probs = torch.zeros(1, VOCABULARY)
    rules = SearchRules(
        RepetitionControls(), [SearchContext([4], [])], log_probs=log_probs, answers=[[2]]
    )
    assert rules.scores(log_probs) is log_probs


def test_ids_excluded_first_are_allowed_later_and_after_a_draft() -> None:
    log_probs = torch.zeros(3, VOCABULARY)
    rules = SearchRules(
        RepetitionControls(),
        [SearchContext([], [])] * 3,
        log_probs=log_probs,
        answers=[[], [5], []],
        never=[6],
        never_first=[[1, 2], [3], []],
    )
    rules.fork(2)
    excluded = rules.scores(log_probs.repeat_interleave(2, dim=0)).isneginf()
    assert [row.nonzero().flatten().tolist() for row in excluded] == [*[[1, 2, 6]] * 2, *[[6]] * 4]
    rules.append(torch.zeros(6, dtype=torch.long))
    assert rules.scores(torch.zeros(6, VOCABULARY)).isneginf().sum(dim=1).tolist() == [1] * 6
