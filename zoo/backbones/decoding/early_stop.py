"""Early stop of a search: end an answer at a token after which a policy reads nothing.

AlignAtt and EDAtt write the tokens before the first one that attends to the newest frames (Papi et
al., 2023). The tokens after that one need not be decoded, unless the alignment is normalised over
the whole text.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from zoo.backbones.decoding.alignment import AlignmentConfig, PastScores
from zoo.backbones.decoding.batches import pick
from zoo.backbones.decoding.partial_text import PartialText
from zoo.base.types import Frames, Request, StopRule


class AttendingBranches(Protocol):
    """Branches of a search that record attention to source frames."""

    def newest_attention(self) -> Tensor:
        """Return the attention of the newest position of each row, (rows, heads, longest).

        Columns after the frames of a stream are padding.
        """

    def prompt_attention(self, stream: int) -> Tensor:
        """Return the attention of all prompt positions of a stream, (positions, heads, frames)."""


class EarlyStop:
    """Applies the stop rule of each stream to its rows; implements ``StopMarks``.

    Attributes:
        of_fed_token: See ``continuation.StopMarks``.
    """

    def __init__(
        self,
        branches: AttendingBranches,
        alignment: AlignmentConfig,
        rules: Sequence[StopRule | None],
        *,
        frames: Sequence[Frames],
        beams: int,
    ) -> None:
        """Configure the marks.

        Args:
            branches: Branches of the search, after their prompts.
            alignment: Alignment of tokens with frames.
            rules: Stop rule of each stream; None: no token of the stream is marked.
            frames: Number of frames of each stream.
            beams: Number of rows per stream.
        """
        self.of_fed_token = alignment.query == "own"
        self._branches = branches
        self._alignment = alignment
        self._rules = [rule for rule in rules for _ in range(beams)]
        self._beams = beams
        counts = [max(1, count - alignment.ignore_last) for count in frames for _ in range(beams)]
        self._frames = torch.tensor(counts)
        self._longest = max(frames)
        self._past: PastScores | None = None

    def keep(self, indices: Sequence[int]) -> None:
        """Let finished streams leave the batch; see ``continuation.Continuation.keep``."""
        rows = [index * self._beams + beam for index in indices for beam in range(self._beams)]
        self._rules = pick(self._rules, rows)
        self._frames = self._frames[rows]
        if self._past is not None:
            self._past.keep(rows)

    def __call__(self) -> Tensor:
        """Return whether its stop rule marks the token of the newest position of each row."""
        newest = self._branches.newest_attention()[..., : self._longest]
        weights = self._alignment.averaged(newest)  # (rows, heads, longest)
        if self._alignment.normalisation == "z_score_past":
            weights = self._normalised(weights)
        frames = self._frames.to(weights.device)
        weights = self._alignment.filtered(weights, frames)  # (rows, longest)

        marks = torch.zeros(len(weights), dtype=torch.bool, device=weights.device)
        for rule in {rule for rule in self._rules if rule is not None}:
            rows = [row for row, other in enumerate(self._rules) if other == rule]
            marks[rows] = rule(weights[rows], frames[rows])
        return marks

    def _normalised(self, weights: Tensor) -> Tensor:
        """Add the newest weights (rows, heads, longest) to the statistics and normalise them."""
        if self._past is None:
            prompts = [
                self._branches.prompt_attention(stream)[..., : self._longest]
                for stream in range(len(weights))
            ]
            self._past = PastScores([self._alignment.averaged(rows) for rows in prompts])
        else:
            self._past.add(weights)
        return self._past.scores()


def can_stop_early(alignment: AlignmentConfig, beams: int) -> bool:
    """Return whether an early stop gives the alignment of a complete answer.

    It does if the alignment of a token depends on earlier tokens only. The statistics of
    ``z_score_past`` are not reordered with beams, so they need a greedy search.

    Args:
        alignment: Alignment of tokens with frames.
        beams: Number of rows per stream.
    """
    normalisation = alignment.normalisation
    return normalisation == "none" or (normalisation == "z_score_past" and beams == 1)


def early_stop(
    branches: AttendingBranches,
    alignment: AlignmentConfig | None,
    requests: Sequence[Request],
    texts: Sequence[PartialText],
    *,
    beams: int,
) -> EarlyStop | None:
    """Return the early stop of a search, or None if no request permits one or it is not exact.

    Args:
        branches: Branches of the search, after their prompts.
        alignment: Alignment of tokens with frames; None: nothing is aligned.
        requests: One request per stream.
        texts: Text that the search of each stream continues.
        beams: Number of rows per stream.
    """
    rules = [request.stop_at for request in requests]
    if alignment is None or not any(rules) or not can_stop_early(alignment, beams):
        return None
    frames = [text.frames for text in texts]
    return EarlyStop(branches, alignment, rules, frames=frames, beams=beams)
