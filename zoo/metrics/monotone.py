"""Monotone alignment of two sequences in which gaps cost nothing (Polák et al., 2025).

Ties are resolved as MATCH > DELETE > INSERT, like in OmniSTEval 0.1.10.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

MATCH, DELETE, INSERT = 0, 1, 2  # steps of the alignment


def align_monotone(
    similarities: Iterable[NDArray[np.floating]], shape: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return the alignment with the largest sum of similarities.

    Each row of the dynamic program is the running maximum of its match and delete candidates.

    Args:
        similarities: Of each token of the reference, in order: its similarity (hypothesis tokens,)
            to those of the hypothesis.
        shape: Numbers of tokens of the reference and of the hypothesis.

    Returns:
        Aligned (reference, hypothesis) positions in order; -1 for a gap.
    """
    rows, columns = shape
    best = np.zeros(columns + 1)
    steps = np.full((rows + 1, columns + 1), INSERT, dtype=np.uint8)
    for index, row in enumerate(similarities, start=1):
        match, delete = best[:-1] + row, best[1:]
        current = np.concatenate([[0.0], np.maximum.accumulate(np.maximum(match, delete))])
        insert = current[:-1]
        steps[index, 1:] = np.where(
            (match >= delete) & (match >= insert), MATCH, np.where(delete >= insert, DELETE, INSERT)
        )
        steps[index, 0] = DELETE
        best = current
    return _trace_back(steps)


def _trace_back(steps: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Follow the steps from the last cell to the first one."""
    row, column = steps.shape[0] - 1, steps.shape[1] - 1
    path: list[tuple[int, int]] = []
    while row > 0 or column > 0:
        step = steps[row, column]
        reference, hypothesis = -1, -1
        if step != INSERT:
            row -= 1
            reference = row
        if step != DELETE:
            column -= 1
            hypothesis = column
        path.append((reference, hypothesis))
    path.reverse()
    return path
