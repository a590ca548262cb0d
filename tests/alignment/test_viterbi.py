"""Forced alignment against all paths of tiny cases."""

import itertools

import pytest
import torch
from torch import Tensor

from zoo.alignment.times.viterbi import BLANK, best_ctc_paths


def collapse(path: tuple[int, ...]) -> list[int]:
    """Graves et al., section 3.1: merge repetitions, then remove blanks (token 0)."""
    return [token for token, _ in itertools.groupby(path) if token != 0]


def best_by_enumeration(log_probs: Tensor, labels: list[int]) -> float:
    tokens = range(log_probs.shape[1])
    return max(
        (
            sum(float(log_probs[frame, token]) for frame, token in enumerate(path))
            for path in itertools.product(tokens, repeat=len(log_probs))
            if collapse(path) == labels
        ),
        default=float("-inf"),
    )


def random_case(seed: int) -> tuple[Tensor, list[int]]:
    generator = torch.Generator().manual_seed(seed)
    frames = int(torch.randint(1, 7, (), generator=generator))
    count = int(torch.randint(0, 5, (), generator=generator))
    logits = 2 * torch.randn(frames, 3, generator=generator, dtype=torch.float64)
    labels = torch.randint(1, 3, (count,), generator=generator).tolist()
    return logits.log_softmax(-1), labels


def test_the_path_is_the_best_of_all_paths_that_emit_the_labels() -> None:
    cases = [random_case(seed) for seed in range(60)]
    found = best_ctc_paths([case[0] for case in cases], [case[1] for case in cases], blank=0)

    impossible = 0
    for (log_probs, labels), path in zip(cases, found, strict=True):
        best = best_by_enumeration(log_probs, labels)
        if path is None:
            assert best == float("-inf")
            impossible += 1
            continue
        assert path.score == pytest.approx(best)
        tokens = [0 if place == BLANK else labels[place] for place in path.labels.tolist()]
        assert collapse(tuple(tokens)) == labels
        score = sum(float(log_probs[frame, token]) for frame, token in enumerate(tokens))
        assert score == pytest.approx(best)
    assert 0 < impossible < 40


def test_rows_of_a_batch_have_the_paths_that_they_have_alone() -> None:
    cases = [random_case(seed) for seed in range(20)]
    together = best_ctc_paths([case[0] for case in cases], [case[1] for case in cases], blank=0)
    for (log_probs, labels), path in zip(cases, together, strict=True):
        [alone] = best_ctc_paths([log_probs], [labels], blank=0)
        assert (alone is None) == (path is None)
        if alone is not None and path is not None:
            assert alone.labels.tolist() == path.labels.tolist()


def test_no_rows_have_no_paths() -> None:
    assert best_ctc_paths([], [], blank=0) == []
