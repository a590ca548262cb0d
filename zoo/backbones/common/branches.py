"""Search branches over a shared key-value cache.

The tokens of all beams of a stream are cached in one sequence. A branch is a subset of the cached
tokens: the prompt and the tokens of one partial hypothesis. An attention mask selects the tokens of
each branch. The prompt is therefore cached once for all beams of a stream, and beams are reordered
without copying keys and values.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.teacher_forcing import at_least_float32

ROOM = 64  # spare positions in a newly allocated cache


class KeyValueCache:
    """Key-value cache of a batch of streams; new positions are written in place.

    ``update`` has the signature that Transformers requires of a cache.

    Attributes:
        data: (layers, 2, streams, heads, room, head size). Index 0 of dimension 1 holds the keys,
            index 1 the values.
        length: Number of positions of ``data`` in use.
    """

    def __init__(self, data: Tensor, length: int = 0) -> None:
        self.data = data
        self.length = length

    def reserve(self, new: int) -> None:
        """Enlarge ``data`` if fewer than ``new`` positions are free."""
        if self.length + new > self.data.shape[4]:
            self.data = F.pad(self.data, (0, 0, 0, new + max(ROOM, self.length // 4)))

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new positions; ``length`` is unchanged.

        Args:
            key: (streams, heads, new, head size).
            value: (streams, heads, new, head size).
            layer: Index of the layer.

        Returns:
            All keys and all values of the layer, (streams, heads, length + new, head size) each.
        """
        end = self.length + key.shape[2]
        keys, values = self.data[layer, :, :, :, :end]
        keys[:, :, self.length :] = key
        values[:, :, self.length :] = value
        return keys, values


class Branches(ABC):
    """Search branches of a batch of streams; implements ``search.Continuation``.

    Each stream has one row per beam; row = stream index x beams + beam index. Prompts and earlier
    cached positions of different lengths are padded on the left.

    Attributes:
        log_probs: (rows, vocabulary) log-probabilities of the next token of each row.
        visible: (rows, positions) bool mask of the cached positions that each row attends to.
        prefix: Number of cached positions before the first generated token, padding included.
        streams: Number of streams.
        beams: Number of rows per stream.
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
        """Compute the masks and positions of the prompts.

        Args:
            cache: Keys and values of earlier positions, padded on the left.
            prompts: Prompt length of each stream.
            device: Device of masks and positions.
            cached: Number of cached positions of each stream, without padding. None means that
                nothing is cached.
            first: Position of the first prompt token of each stream. None means 0.
            max_positions: Number of positions of the decoder. None means unlimited.
        """
        self.streams = len(prompts)
        self.beams = 1
        self._cache = cache
        self._max_positions = max_positions
        past, new = cache.length, max(prompts)
        self.prefix = past + new
        self.visible = torch.zeros(self.streams, self.prefix, dtype=torch.bool, device=device)
        self._positions = torch.zeros(self.streams, new, dtype=torch.long, device=device)

        zeros = [0] * self.streams
        layout = zip(prompts, cached or zeros, first or zeros, strict=True)
        for row, (length, kept, position) in enumerate(layout):
            self.visible[row, past - kept : past] = True
            self.visible[row, self.prefix - length :] = True
            self._positions[row, new - length :] = torch.arange(length, device=device) + position
        self._next = self._positions[:, -1:] + 1

    def fork(self, beams: int) -> None:
        """Replace the row of each stream by ``beams`` identical rows, before the first step."""
        self.beams = beams
        self.visible = self.visible.repeat_interleave(beams, dim=0)
        self.log_probs = self.log_probs.repeat_interleave(beams, dim=0)

    def step(self, tokens: list[int], rows: list[int] | None = None) -> None:
        """Append one token to each row.

        Args:
            tokens: Next id of each row.
            rows: For each new row, the index of the old row that the new row continues. Both rows
                belong to the same stream. None continues each row with its own token.
        """
        device = self.visible.device
        if rows is not None:
            self.visible = self.visible[torch.tensor(rows, device=device)]
        itself = torch.eye(self.beams, dtype=torch.bool, device=device).repeat(self.streams, 1)
        self.visible = torch.cat([self.visible, itself], dim=1)

        ids = torch.tensor(tokens, device=device).view(self.streams, self.beams)
        visible = self.visible.view(self.streams, self.beams, -1)
        hidden = self._feed(ids, self._next.expand(-1, self.beams), visible)
        self.log_probs = self._predict(hidden.flatten(0, 1))
        self._next = self._within_room(self._next + 1)

    def _within_room(self, positions: Tensor) -> Tensor:
        """Limit positions to those of the decoder.

        Only ids that no answer contains lie beyond: finished streams are fed until all streams
        finish, and drafts are padded.
        """
        if self._max_positions is None:
            return positions
        return positions.clamp(max=self._max_positions - 1)

    def places(self, row: int) -> Tensor:
        """Return the cache positions of the tokens fed to ``row``, counted from ``prefix``.

        The shape is (n,) int64 for n tokens.
        """
        return self.visible[row, self.prefix :].nonzero().flatten()

    @abstractmethod
    def generated(self, row: int) -> Tensor:
        """Return decoder data of the tokens fed to ``row``, the value of ``Answer.generated``."""

    @abstractmethod
    def _feed(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        """Run the decoder over new tokens and append their keys and values to the cache.

        Args:
            ids: (streams, new) token ids.
            positions: (streams, new) position of each token in its text.
            visible: (streams, new, cached + new) bool attention mask.

        Returns:
            (streams, new, width) hidden states.
        """

    @abstractmethod
    def _logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (..., vocabulary) of hidden states (..., width)."""

    def _predict(self, hidden: Tensor) -> Tensor:
        """Return log-probabilities (..., vocabulary) of hidden states (..., width).

        The log-softmax is computed at least in float32.
        """
        return at_least_float32(self._logits(hidden)).log_softmax(dim=-1)

    def _prompt_mask(self) -> Tensor:
        """Return the causal attention mask of the prompts, (streams, new, prefix) bool."""
        keys = torch.arange(self.prefix, device=self.visible.device)
        queries = keys[self._cache.length :, None]  # (new, 1)
        causal = keys <= queries
        itself = keys == queries  # padding attends to itself, because an empty softmax is NaN
        return causal & self.visible[:, None] | itself
