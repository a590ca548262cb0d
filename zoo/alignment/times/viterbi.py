"""Forced alignment with a CTC model: the most probable path that emits given labels.

The Viterbi algorithm on the states of CTC (Graves et al., 2006, section 4.1): the labels, with a
blank before, between and after them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

BLANK = -1  # label index of a frame that emits no label
IMPOSSIBLE = float("-inf")


@dataclass(frozen=True, slots=True)
class CTCPath:
    """The most probable path of one waveform.

    Attributes:
        labels: (frames,) int64, index of the label that each frame emits; ``BLANK`` for none.
        score: log-probability of the path.
    """

    labels: Tensor
    score: float


def best_ctc_paths(
    log_probs: Sequence[Tensor], labels: Sequence[Sequence[int]], *, blank: int
) -> list[CTCPath | None]:
    """Find the most probable path of each row through its labels.

    A label is emitted by one frame or several consecutive frames. Blanks may lie between two
    labels; at least one must lie between equal labels.

    Args:
        log_probs: (frames, tokens) log-probabilities of each row.
        labels: Tokens that the path of each row emits in this order.
        blank: Token of the blank.

    Returns:
        Path of each row; None if it has too few frames for its labels. Rows do not influence one
        another.
    """
    if not log_probs:
        return []
    device = log_probs[0].device
    tokens = [_with_blanks(row, blank).to(device) for row in labels]
    lengths = torch.tensor([len(row) for row in log_probs], device=device)
    counts = torch.tensor([len(row) for row in tokens], device=device)  # numbers of states
    emitted = _emissions(log_probs, tokens)  # (rows, frames, states)

    # A state may follow the state two before it, unless it is a blank or repeats that label.
    may_skip = torch.zeros(emitted[:, 0].shape, dtype=torch.bool, device=device)
    for row, row_tokens in enumerate(tokens):
        may_skip[row, 2 : len(row_tokens)] = (row_tokens[2:] != blank) & (
            row_tokens[2:] != row_tokens[:-2]
        )

    best, steps = _forward(emitted, may_skip, lengths)
    rows = torch.arange(len(tokens), device=device)
    # A path ends in the last label or in the blank after it; without labels, in the only blank.
    last = (counts - 2).clamp_min(0)
    last = torch.where(best[rows, counts - 1] >= best[rows, last], counts - 1, last)
    final = best[rows, last].tolist()
    states = _backward(steps, last, lengths).cpu()

    emitted_labels = torch.where(states % 2 == 1, states // 2, BLANK)
    return [
        None if score == IMPOSSIBLE else CTCPath(row[:length], score)
        for row, length, score in zip(emitted_labels, lengths.tolist(), final, strict=True)
    ]


def _with_blanks(labels: Sequence[int], blank: int) -> Tensor:
    """Return the tokens of the states (2 n + 1,): the n labels with blanks around them."""
    tokens = torch.full((2 * len(labels) + 1,), blank, dtype=torch.long)
    tokens[1::2] = torch.tensor(labels, dtype=torch.long)
    return tokens


def _emissions(log_probs: Sequence[Tensor], tokens: Sequence[Tensor]) -> Tensor:
    """Return the log-probability of each state in each frame, (rows, frames, states) float64."""
    frames, states = max(map(len, log_probs)), max(map(len, tokens))
    return torch.stack(
        [
            F.pad(
                row[:, row_tokens].double(),
                (0, states - len(row_tokens), 0, frames - len(row)),
                value=IMPOSSIBLE,
            )
            for row, row_tokens in zip(log_probs, tokens, strict=True)
        ]
    )


def _forward(emitted: Tensor, may_skip: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the best path to each state.

    Args:
        emitted: (rows, frames, states) log-probability of each state in each frame.
        may_skip: (rows, states) whether a state may follow the state two before it.
        lengths: (rows,) number of frames of each row.

    Returns:
        (rows, states) log-probability of the best path to each state in the last frame, and
        (rows, frames, states) int8, how many states before each state its predecessor is.
    """
    rows, frames, states = emitted.shape
    best = emitted[:, 0].clone()
    best[:, 2:] = IMPOSSIBLE
    steps = torch.zeros(rows, frames, states, dtype=torch.int8, device=emitted.device)
    for frame in range(1, frames):
        stay = best
        step = F.pad(best, (1, 0), value=IMPOSSIBLE)[:, :states]
        skip = F.pad(best, (2, 0), value=IMPOSSIBLE)[:, :states]
        skip = skip.masked_fill(~may_skip, IMPOSSIBLE)
        best_before, steps_here = torch.stack([stay, step, skip]).max(dim=0)
        steps[:, frame] = steps_here.to(torch.int8)
        is_inside = (lengths > frame)[:, None]
        best = torch.where(is_inside, best_before + emitted[:, frame], best)
    return best, steps


def _backward(steps: Tensor, last: Tensor, lengths: Tensor) -> Tensor:
    """Follow the best paths from their last state to the first frame.

    Args:
        steps: (rows, frames, states) result of ``_forward``.
        last: (rows,) last state of each path.
        lengths: (rows,) number of frames of each row.

    Returns:
        (rows, frames) state of each frame; the frames after the end of a row have its last state.
    """
    rows, frames, _ = steps.shape
    every_row = torch.arange(rows, device=steps.device)
    states = torch.empty(rows, frames, dtype=torch.long, device=steps.device)
    state = last
    for frame in range(frames - 1, -1, -1):
        states[:, frame] = state
        step = steps[every_row, frame, state].long()
        state = torch.where(lengths > frame, (state - step).clamp_min(0), state)
    return states
