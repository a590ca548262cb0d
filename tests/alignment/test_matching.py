"""SimAlign's three methods on similarity matrices."""

import itertools

import numpy as np
import pytest

from zoo.alignment.words.matching import METHODS, argmax, discount_distortion, itermax, match


def points(linked: np.ndarray) -> list[tuple[int, int]]:
    return [tuple(point) for point in np.argwhere(linked).tolist()]


SIMILARITY = np.array([[0.9, 0.2, 0.8, 0.3], [0.1, 0.5, 0.4, 0.6], [0.7, 0.3, 0.6, 0.2]])


def test_argmax_links_what_is_best_in_both_directions() -> None:
    # The best target of the third row is the first, which has a better row.
    assert points(argmax(SIMILARITY)) == [(0, 0), (1, 3)]


def test_itermax_links_remaining_tokens_in_a_second_iteration() -> None:
    # Open are row 2 and the columns 1 and 2. Column 2: row 0 (0.9 * 0.8) before row 2 (0.6); the
    # best open column of row 0 is 2. Column 1: row 1 (0.9 * 0.5) before row 2 (0.3). Column 0: only
    # row 2 is open, whose best column it is (0.9 * 0.7).
    assert points(itermax(SIMILARITY)) == [(0, 0), (0, 2), (1, 1), (1, 3), (2, 0)]


def test_itermax_of_short_sentences_is_argmax() -> None:
    assert (itermax(SIMILARITY[:2]) == argmax(SIMILARITY[:2])).all()


def test_itermax_stops_when_one_side_is_linked() -> None:
    similarity = np.eye(3, 4) * 0.5 + 0.4
    assert points(itermax(similarity)) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 3), (3, 5), (5, 3), (4, 4)])
def test_match_has_the_largest_sum_of_all_one_to_one_links(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    for _ in range(10):
        similarity = rng.random(shape)
        linked = match(similarity)
        assert linked.sum() == min(shape)
        assert linked.sum(axis=0).max() == linked.sum(axis=1).max() == 1
        wide = similarity if shape[0] <= shape[1] else similarity.T
        best = max(
            wide[np.arange(len(wide)), list(columns)].sum()
            for columns in itertools.permutations(range(wide.shape[1]), len(wide))
        )
        assert similarity[linked].sum() == pytest.approx(best)


def test_distortion_lowers_similarities_off_the_diagonal() -> None:
    lowered = discount_distortion(np.ones((2, 3)), 0.5)
    assert lowered.tolist() == [[1, 1 - 0.5 * 0.25, 0.5], [0.5, 1 - 0.5 * 0.25, 1]]
    assert (discount_distortion(np.ones((1, 3)), 0.5) == 1).all()


@pytest.mark.parametrize("seed", range(20))
def test_methods_agree_with_the_package_of_the_authors(seed: int) -> None:
    simalign = pytest.importorskip("simalign")
    rng = np.random.default_rng(seed)
    similarity = rng.random(rng.integers(1, 9, size=2))
    theirs = simalign.SentenceAligner
    forward, backward = theirs.get_alignment_matrix(similarity)
    assert (METHODS["argmax"](similarity) == (forward * backward > 0)).all()
    assert (METHODS["itermax"](similarity) == (theirs.iter_max(similarity) > 0)).all()
    assert (METHODS["match"](similarity) == (theirs.get_max_weight_match(similarity) > 0)).all()
    ours = discount_distortion(similarity, 0.5)
    assert np.allclose(ours, theirs.apply_distortion(similarity, 0.5))
