"""Word alignments from a matrix of similarities (Jalili Sabet et al., 2020, section 3)."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Method = Literal["argmax", "itermax", "match"]

ITERATIONS = 2  # iterations of Itermax; n_max in the paper
DISCOUNT = 0.9  # factor on similarities to a word that is already aligned; alpha in the paper


def argmax(similarity: Matrix) -> NDArray[np.bool_]:
    """Link what is most similar in both directions (Argmax).

    Args:
        similarity: (source, target) similarities.

    Returns:
        (source, target) whether two tokens are linked.
    """
    linked = np.zeros(similarity.shape, dtype=bool)
    best_targets = similarity.argmax(axis=1)
    sources = np.arange(len(similarity))
    is_mutual = similarity.argmax(axis=0)[best_targets] == sources
    linked[sources[is_mutual], best_targets[is_mutual]] = True
    return linked


def itermax(similarity: Matrix) -> NDArray[np.bool_]:
    """Repeat Argmax for tokens that have no link yet (Itermax).

    Two tokens that both have links stay as they are. The similarity to a token that has a link is
    discounted. As in the authors' package, sentences of one or two tokens have one iteration.

    Args:
        similarity: (source, target) similarities, not negative.

    Returns:
        (source, target) whether two tokens are linked.
    """
    linked = argmax(similarity)
    if min(similarity.shape) <= 2:
        return linked
    for _ in range(ITERATIONS - 1):
        has_source = linked.any(axis=1, keepdims=True)
        has_target = linked.any(axis=0, keepdims=True)
        if has_source.all() or has_target.all():
            break
        weights = np.where(has_source | has_target, DISCOUNT, 1.0)
        is_open = ~(has_source & has_target)
        linked = linked | (argmax(similarity * weights * is_open) & is_open)
    return linked


def match(similarity: Matrix) -> NDArray[np.bool_]:
    """Link each token of the shorter side to one token of its own (Match).

    The links have the largest sum of similarities. Which of several best sets of links is returned,
    as for repeated words with equal similarities, depends on SciPy.

    Args:
        similarity: (source, target) similarities.

    Returns:
        (source, target) whether two tokens are linked.
    """
    from scipy.optimize import linear_sum_assignment  # its import takes half a second

    linked = np.zeros(similarity.shape, dtype=bool)
    linked[linear_sum_assignment(similarity, maximize=True)] = True
    return linked


METHODS: dict[str, Callable[[Matrix], NDArray[np.bool_]]] = {
    "argmax": argmax,
    "itermax": itermax,
    "match": match,
}


def discount_distortion(similarity: Matrix, strength: float) -> Matrix:
    """Lower the similarity of tokens at different relative positions (section 3.2).

    Args:
        similarity: (source, target) similarities.
        strength: kappa in the paper; 0 changes nothing.

    Returns:
        (source, target) similarities.
    """
    if strength == 0 or min(similarity.shape) < 2:
        return similarity
    sources, targets = (np.linspace(0, 1, size) for size in similarity.shape)
    return similarity * (1 - strength * (sources[:, None] - targets[None, :]) ** 2)
