"""Constraints on generated ids, as tensor operations on all rows of a search at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.decoding.continuation import SearchContext
from zoo.base.errors import ZooError


@dataclass(frozen=True, slots=True)
class RepetitionControls:
    """Controls of repeated ids; ``search.SearchConfig`` documents the values."""

    no_repeat_ngram: int = 0
    penalty: float = 1.0
    compared: Literal["text", "prompt"] = "text"

    @property
    def enabled(self) -> bool:
        """Whether the scores of an id depend on the ids before it."""
        return self.no_repeat_ngram != 0 or self.penalty != 1.0

    def begin(
        self, contexts: Sequence[SearchContext], answers: Sequence[list[int]], log_probs: Tensor
    ) -> "Repetition | None":
        """Begin a search; None if no control is enabled. ``Repetition`` has the arguments."""
        if not self.enabled:
            return None
        return Repetition(self, contexts, answers, log_probs)


class Repetition:
    """Ids before the next id of each row, and the scores of ids that would repeat them.

    Rows of different lengths are padded on the left with an id that is not in the vocabulary.

    Attributes:
        ids: (rows, n) ids that the controls compare with.
        earlier: (rows, m) further ids whose n-grams must not be repeated, or None.
    """

    def __init__(
        self,
        controls: RepetitionControls,
        contexts: Sequence[SearchContext],
        answers: Sequence[list[int]],
        log_probs: Tensor,
    ) -> None:
        """Pad the ids of all rows.

        Args:
            controls: Which controls are enabled.
            contexts: Context of each row.
            answers: Ids of each row that are already generated.
            log_probs: (rows, vocabulary) a tensor of the size and on the device of the scores.
        """
        self._controls = controls
        self._padding = vocabulary = log_probs.shape[1]
        before = [row.earlier if controls.compared == "text" else row.prompt for row in contexts]
        texts = [ids + answer for ids, answer in zip(before, answers, strict=True)]
        self.ids = _padded(texts, vocabulary).to(log_probs.device)
        self.earlier: Tensor | None = None
        if controls.compared == "prompt":
            # Another padding than that of ``ids``, because equal ids would be an n-gram.
            earlier = _padded([row.earlier for row in contexts], vocabulary + 1)
            self.earlier = earlier.to(log_probs.device)

    def select(self, rows: Tensor) -> None:
        """Keep the rows with these indices, in this order."""
        self.ids = self.ids[rows]
        if self.earlier is not None:
            self.earlier = self.earlier[rows]

    def append(self, tokens: Tensor) -> None:
        """Append the generated ids (rows,)."""
        self.ids = torch.cat([self.ids, tokens[:, None]], dim=1)

    def scores(self, log_probs: Tensor) -> Tensor:
        """Apply the controls to (rows, vocabulary) log-probabilities; the result is a copy."""
        scores = F.pad(log_probs, (0, 1))  # the last column belongs to the padding
        if self._controls.penalty != 1.0:
            penalised = scores.gather(1, self.ids) * self._controls.penalty
            scores.scatter_(1, self.ids, penalised)
        if self._controls.no_repeat_ngram:
            for text in (self.ids, self.earlier):
                if text is not None:
                    scores.scatter_(1, self._following(text), -torch.inf)
        return scores[:, :-1]

    def _following(self, text: Tensor) -> Tensor:
        """Return the ids that would complete an n-gram of ``text`` (rows, m), and the padding.

        The newest ids of a row are the beginning of the n-gram. Beginnings that contain padding are
        followed by padding only.
        """
        size = self._controls.no_repeat_ngram
        missing = self.ids.shape[1] < size - 1 or text.shape[1] < size
        if missing:
            return text[:, :0]
        newest = self.ids[:, self.ids.shape[1] - size + 1 :]
        ngrams = text.unfold(1, size, 1)  # (rows, m - size + 1, size)
        repeated = (ngrams[..., :-1] == newest[:, None]).all(dim=-1)
        return torch.where(repeated, ngrams[..., -1], self._padding)


class SearchRules:
    """Constraints on the ids that a search generates; the state of one search."""

    def __init__(
        self,
        controls: RepetitionControls,
        contexts: Sequence[SearchContext],
        *,
        log_probs: Tensor,
        answers: Sequence[list[int]],
        never: Sequence[int] = (),
        never_first: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Move the constraints to the device of the scores.

        Args:
            controls: Controls of repeated ids.
            contexts: Context of each row.
            log_probs: (rows, vocabulary) a tensor of the size and on the device of the scores.
            answers: Ids of each row that are already generated.
            never: Ids that are never generated.
            never_first: For each row, ids that are never generated first. None: no such ids.
        """
        device = log_probs.device
        self._rows = len(contexts)
        self._repetition = controls.begin(contexts, answers, log_probs)
        self._never = torch.tensor(list(never), dtype=torch.long, device=device)
        excluded = [
            (row, token)
            for row, tokens in enumerate(never_first or [])
            for token in tokens
            if not answers[row]
        ]
        # (2, n) rows and ids that are excluded now
        self._excluded = torch.tensor(excluded, dtype=torch.long, device=device).view(-1, 2).T

    def fork(self, beams: int) -> None:
        """Replace each row by ``beams`` identical rows, before the first id."""
        if self._repetition is not None:
            rows = torch.arange(self._rows, device=self._never.device)
            self._repetition.select(rows.repeat_interleave(beams))
        rows, ids = self._excluded
        forked = rows[:, None] * beams + torch.arange(beams, device=rows.device)
        self._excluded = torch.stack([forked.flatten(), ids.repeat_interleave(beams)])

    def select(self, rows: Tensor) -> None:
        """Keep the rows with these indices, in this order, before ``append``."""
        if self._repetition is not None:
            self._repetition.select(rows)

    def append(self, tokens: Tensor) -> None:
        """Append the generated ids (rows,)."""
        self._excluded = self._excluded[:, :0]
        if self._repetition is not None:
            self._repetition.append(tokens)

    def scores(self, log_probs: Tensor) -> Tensor:
        """Apply all constraints.

        Args:
            log_probs: (rows, vocabulary) log-probabilities of the next id.

        Returns:
            (rows, vocabulary) scores; an excluded id has the score -inf. Without constraints,
            ``log_probs`` itself is returned.
        """
        scores = log_probs
        if self._repetition is not None:
            scores = self._repetition.scores(log_probs)
        if len(self._never):
            scores = scores.index_fill(1, self._never, -torch.inf)
        if self._excluded.numel():
            scores = scores.clone()
            scores[*self._excluded] = -torch.inf
        return scores


def check_score(best: float) -> None:
    """Check the best score of the next id.

    Args:
        best: Score of the id that a search would choose: NaN if any score is NaN, -inf if all ids
            are excluded.

    Raises:
        ZooError: The score is NaN or -inf.
    """
    if math.isnan(best):
        raise ZooError(
            "The weights give no finite numbers: the scores of the next token are NaN; check the "
            "checkpoint and the level of the audio, or choose another backbone.dtype."
        )
    if best == -math.inf:
        raise ZooError(
            "The search excludes every token; relax search.suppress and search.no_repeat_ngram."
        )


def _padded(rows: Sequence[list[int]], padding: int) -> Tensor:
    """Stack rows of ids, padded on the left: (rows, longest)."""
    longest = max(map(len, rows))
    return torch.tensor(
        [[padding] * (longest - len(ids)) + ids for ids in rows], dtype=torch.long
    ).view(len(rows), longest)
