"""Branches of several texts over one cache of keys and values: the common part of every beam
search.

All tokens of a stream, of all its beams, stand in one sequence. A branch attends to the prompt and
to the tokens it grew from. The prompt is therefore cached once for all beams of a stream, and beams
are reordered without copying keys and values.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.teacher_forcing import at_least_float32

ROOM = 64  # positions that are allocated ahead


class KeyValueCache:
    """Keys and values of a batch of streams; new positions are written in place.

    ``update`` has the signature that Transformers requires of a cache.

    Attributes:
        data: (layers, 2, streams, heads, room, head size), keys and values.
        length: Positions of ``data`` that are in use.
    """

    def __init__(self, data: Tensor, length: int = 0) -> None:
        self.data = data
        self.length = length

    def reserve(self, new: int) -> None:
        """Allocate room for ``new`` more positions."""
        if self.length + new > self.data.shape[4]:
            self.data = F.pad(self.data, (0, 0, 0, new + max(ROOM, self.length // 4)))

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write (streams, heads, new, head size) after the positions in use.

        Returns:
            All keys and all values of the layer, (streams, heads, length + new, head size).
        """
        end = self.length + key.shape[2]
        keys, values = self.data[layer, :, :, :, :end]
        keys[:, :, self.length :] = key
        values[:, :, self.length :] = value
        return keys, values


class Branches(ABC):
    """Texts in progress for a batch of streams; fulfils ``search.Continuation``.

    Rows are streams x beams. Prompts of different lengths, and what was cached before them, are
    padded on the left.

    Attributes:
        log_probs: (rows, vocabulary), of each row's next token.
        visible: (rows, positions) bool, the cached positions that a row attends to.
        prefix: Positions before the first generated token, padding included.
    """

    log_probs: Tensor

    def __init__(
        self,
        cache: KeyValueCache,
        prompts: Sequence[int],
        *,
        device: torch.device,
        cached: Sequence[int] | None = None,
        first: Sequence[int] | None = None,
        max_positions: int | None = None,
    ) -> None:
        """Lay out prompts after what is cached.

        Args:
            cache: Keys and values of earlier positions, padded on the left.
            prompts: Length of each stream's prompt.
            device: Of ``visible`` and of positions.
            cached: Positions of each stream in the cache, without padding (None: 0).
            first: Position of each prompt's first token (None: 0).
            max_positions: Positions that the decoder has (None: any number).
        """
        self.streams, self.beams = len(prompts), 1
        self._cache = cache
        self._max_positions = max_positions
        past, new = cache.length, max(prompts)
        self.prefix = past + new
        self.visible = torch.zeros(self.streams, self.prefix, dtype=torch.bool, device=device)
        self._positions = torch.zeros(self.streams, new, dtype=torch.long, device=device)

        starts = zip(
            prompts, cached or [0] * self.streams, first or [0] * self.streams, strict=True
        )
        for row, (length, kept, position) in enumerate(starts):
            self.visible[row, past - kept : past] = True
            self.visible[row, self.prefix - length :] = True
            self._positions[row, new - length :] = torch.arange(length, device=device) + position
        self._next = self._positions[:, -1:] + 1

    def fork(self, beams: int) -> None:
        """Give each stream ``beams`` rows that continue the same prompt.

        Only before the first step.
        """
        self.beams = beams
        self.visible = self.visible.repeat_interleave(beams, dim=0)
        self.log_probs = self.log_probs.repeat_interleave(beams, dim=0)

    def step(self, tokens: list[int], rows: list[int] | None = None) -> None:
        """Row i continues row ``rows[i]`` of its stream (None: itself) with ``tokens[i]``."""
        device = self.visible.device
        if rows is not None:
            self.visible = self.visible[torch.tensor(rows, device=device)]
        itself = torch.eye(self.beams, dtype=torch.bool, device=device).repeat(self.streams, 1)
        self.visible = torch.cat([self.visible, itself], dim=1)

        ids = torch.tensor(tokens, device=device).view(self.streams, self.beams)
        visible = self.visible.view(self.streams, self.beams, -1)
        hidden = self._feed(ids, self._next.expand(-1, self.beams), visible)
        self.log_probs = self._predict(hidden.flatten(0, 1))
        self._next = self._next + 1
        if self._max_positions is not None:  # finished streams are fed until all have finished
            self._next = self._next.clamp(max=self._max_positions - 1)

    def places(self, row: int) -> Tensor:
        """(n,) int64: where the n tokens fed to ``row`` stand after the prompt."""
        return self.visible[row, self.prefix :].nonzero().flatten()

    @abstractmethod
    def generated(self, row: int) -> Tensor:
        """What is kept of the tokens fed to ``row``; becomes ``Answer.generated``."""

    @abstractmethod
    def _feed(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        """Append (streams, new) tokens to the cache and return hidden states (streams, new, width).

        ``visible`` is (streams, new, cached + new) bool.
        """

    @abstractmethod
    def _logits(self, hidden: Tensor) -> Tensor:
        """(..., width) to (..., vocabulary)."""

    def _predict(self, hidden: Tensor) -> Tensor:
        """(..., width) to log-probabilities (..., vocabulary), at least in float32."""
        return at_least_float32(self._logits(hidden)).log_softmax(dim=-1)

    def _prompt_mask(self) -> Tensor:
        """(streams, new, prefix) bool: what each position of the prompts attends to."""
        order = torch.arange(self.prefix, device=self.visible.device)
        queries = order[self._cache.length :, None]
        itself = order == queries  # padding attends to itself: a softmax over nothing is NaN
        return (order <= queries) & self.visible[:, None] | itself
