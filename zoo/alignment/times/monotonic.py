"""The best monotonic path through the attention of the tokens of a text to the frames of audio."""

import torch
import torch.nn.functional as F
from torch import Tensor

IMPOSSIBLE = float("-inf")


def first_frames(scores: Tensor) -> list[int] | None:
    """Find the path with the largest sum of scores on which every row has one frame or more.

    Every frame belongs to one row; the rows follow one another in their order.

    Args:
        scores: (rows, frames) scores.

    Returns:
        First frame of each row; None if there are more rows than frames.
    """
    rows, frames = scores.shape
    if rows > frames:
        return None
    columns = scores.double().cpu().T
    best = torch.full((rows,), IMPOSSIBLE, dtype=torch.double)
    best[0] = columns[0, 0]
    begins = torch.zeros(frames, rows, dtype=torch.bool)  # whether the row begins with the frame
    for frame in range(1, frames):
        before = F.pad(best[:-1], (1, 0), value=IMPOSSIBLE)
        begins[frame] = before > best
        best = torch.maximum(best, before) + columns[frame]

    firsts = [0] * rows
    row = rows - 1
    for frame in range(frames - 1, 0, -1):
        if row and begins[frame, row]:
            firsts[row] = frame
            row -= 1
    return firsts
