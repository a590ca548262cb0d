"""Search branches over a shared key-value cache.

The tokens of all beams of a stream are cached in one sequence. A branch is a subset of the cached
tokens: the prompt and the tokens of one partial hypothesis. An attention mask selects the tokens of
each branch. The prompt is therefore cached once for all beams of a stream, and beams are reordered
without copying keys and values.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.decoding.batches import pick
from zoo.backbones.decoding.teacher_forcing import at_least_float32

ROOM = 64  # spare positions in a newly allocated cache


class LayerCache(NamedTuple):
    """Views of one layer of a ``KeyValueCache``, with room for new positions.

    Attributes:
        written: (2, streams, heads, new, head size) keys and values of the new positions. If
            ``new_positions`` is not None, those of all positions.
        keys: (streams, heads, length + new, head size).
        values: (streams, heads, length + new, head size).
        new_positions: (new,) cache positions to write. None: the last ones.
    """

    written: Tensor
    keys: Tensor
    values: Tensor
    new_positions: Tensor | None = None

    def write(self, new: Tensor) -> None:
        """Write the keys and values (2, streams, heads, new, head size) of the new positions."""
        if self.new_positions is None:
            self.written.copy_(new)
        else:
            self.written.index_copy_(3, self.new_positions, new)


class KeyValueCache:
    """Key-value cache of a batch of streams; new positions are written in place.

    ``update`` has the signature that Transformers requires of a cache.

    Attributes:
        data: (layers, 2, streams, heads, room, head size). Index 0 of dimension 1 holds the keys,
            index 1 the values.
        length: Number of positions of ``data`` in use.
        live: Number of streams that are decoded, the first ones of ``data``.
    """

    def __init__(self, data: Tensor, length: int = 0) -> None:
        self.data = data
        self.length = length
        self.live = data.shape[2]

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
        keys, values = self.data[layer, :, : self.live, :, :end]
        keys[:, :, self.length :] = key
        values[:, :, self.length :] = value
        return keys, values

    def layers(self, new: int) -> list[LayerCache]:
        """Return the views of all layers for ``new`` more positions, first to last.

        The cache is enlarged if they do not fit; ``length`` is unchanged.
        """
        self.reserve(new)
        used = self.data[:, :, : self.live, :, : self.length + new]
        pairs = zip(used[..., self.length :, :].unbind(0), used.unbind(0), strict=True)
        return [LayerCache(new_views, *both.unbind(0)) for new_views, both in pairs]

    def exchange(self, indices: Sequence[int], others: Sequence[int]) -> None:
        """Exchange the streams with these indices for those with the indices ``others``."""
        used = self.data[..., : self.length, :]
        used[:, :, [*indices, *others]] = used[:, :, [*others, *indices]]


def added_mask(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask that is added to scores: 0 where a bool mask is True, -inf elsewhere."""
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, -torch.inf)


class Branches(ABC):
    """Search branches of a batch of streams.

    The class implements ``Continuation``, ``Drafts`` and ``GuessedContinuation``.

    Each live stream has one row per beam; row = index in ``live`` x beams + beam index. Prompts and
    earlier cached positions of different lengths are padded on the left, drafts on the right.

    Attributes:
        log_probs: (rows, vocabulary) log-probabilities of the next token of each row.
        visible: (rows, positions) bool mask of the cached positions that each row attends to.
        prefix: Number of cached positions before the first generated token, padding included.
        streams: Number of streams.
        beams: Number of rows per stream.
        live: The streams of the batch, in the order of its rows. Streams leave it by ``keep``.
        drafts: Ids that may follow each prompt; see ``continuation.Drafts``.
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
        drafts: Sequence[list[int]] | None = None,
    ) -> None:
        """Compute the masks and positions of the prompts and drafts.

        Args:
            cache: Keys and values of earlier positions, padded on the left.
            prompts: Prompt length of each stream.
            device: Device of masks and positions.
            cached: Number of cached positions of each stream, without padding. None means that
                nothing is cached.
            first: Position of the first prompt token of each stream. None means 0.
            max_positions: Number of positions of the decoder. None means unlimited.
            drafts: Ids that may follow each prompt. None: no drafts.
        """
        self.streams = len(prompts)
        self.live = list(range(self.streams))
        self.beams = 1
        self.drafts = drafts or [[] for _ in prompts]
        self._cache = cache
        # Index of the stream whose keys and values each row of the cache has.
        self._rows = list(range(self.streams))
        self._max_positions = max_positions
        self._guessed = 0  # most guessed ids of the last ``step_guessed``
        past, new = cache.length, max(prompts)
        self.prefix = past + new
        self.visible = torch.zeros(self.streams, self.prefix, dtype=torch.bool, device=device)
        positions = torch.zeros(self.streams, new, dtype=torch.long, device=device)

        zeros = [0] * self.streams
        layout = zip(prompts, cached or zeros, first or zeros, strict=True)
        for row, (length, earlier, position) in enumerate(layout):
            self.visible[row, past - earlier : past] = True
            self.visible[row, self.prefix - length :] = True
            positions[row, new - length :] = torch.arange(length, device=device) + position
        self._prompt_visible = self.visible
        self._next = positions[:, -1:] + 1
        self._longest_draft = max(len(draft) for draft in self.drafts)
        offsets = torch.arange(self._longest_draft, device=device)
        # (streams, new + longest draft)
        self._positions = self._within_room(torch.cat([positions, self._next + offsets], dim=1))

    def _begin(self, hidden: Tensor) -> None:
        """Set the scores after the prompts; no id of a draft is accepted yet.

        Args:
            hidden: (streams, new + longest draft, width) states of the prompts and drafts.
        """
        prompts = hidden.shape[1] - self._longest_draft
        # The last state of the prompt predicts the first id of a draft
        self._draft_states = hidden[:, prompts - 1 :]
        self.visible = F.pad(self.visible, (0, self._longest_draft))
        self.log_probs = self._predict(hidden[:, prompts - 1])

    def draft_log_probs(self, stream: int) -> Tensor:
        """Return the log-probabilities (n, vocabulary) of the n ids of a draft."""
        return self._predict(self._draft_states[stream, : len(self.drafts[stream])])

    def accept(self, lengths: Sequence[int]) -> None:
        """Continue after the first ids of each draft; the other ids stay in the cache, masked.

        Args:
            lengths: Number of accepted ids of each stream.
        """
        accepted = torch.tensor(lengths, device=self.visible.device)
        offsets = torch.arange(self.visible.shape[1] - self.prefix, device=accepted.device)
        self.visible[:, self.prefix :] = offsets < accepted[:, None]
        self._next = self._within_room(self._next + accepted[:, None])
        streams = torch.arange(self.streams, device=accepted.device)
        self.log_probs = self._predict(self._draft_states[streams, accepted])

    def fork(self, beams: int) -> None:
        """Replace the row of each stream by ``beams`` identical rows, before the first step."""
        self.beams = beams
        self.visible = self.visible.repeat_interleave(beams, dim=0)
        self.log_probs = self.log_probs.repeat_interleave(beams, dim=0)

    def keep(self, indices: Sequence[int]) -> None:
        """Let finished streams leave the batch.

        The cache keeps their keys and values, behind those of the streams that stay.

        Args:
            indices: For each stream that stays, in the new order, its index in the batch so far. A
                stream keeps its index or gets that of a finished stream.
        """
        new = [index for index, old in enumerate(indices) if index != old]
        if new:
            self._exchange(new, pick(indices, new))
        for index in new:
            other = indices[index]
            self._rows[index], self._rows[other] = self._rows[other], self._rows[index]
        self.live = self._rows[: len(indices)]
        self._cache.live = len(indices)
        remaining = torch.tensor(indices, device=self.visible.device)
        self._next = self._next[remaining]
        rows = (
            remaining[:, None] * self.beams + torch.arange(self.beams, device=remaining.device)
        ).flatten()
        self.visible = self.visible[rows]

    def _exchange(self, indices: Sequence[int], others: Sequence[int]) -> None:
        """Exchange the decoder data of these streams for that of ``others``."""
        self._cache.exchange(indices, others)

    def step(self, tokens: Tensor, rows: Tensor | None = None) -> None:
        """Append one token to each row.

        Args:
            tokens: (rows,) next id of each row.
            rows: (rows,) for each new row, the index of the old row that the new row continues.
                Both rows belong to the same stream. None continues each row with its own token.
        """
        live = len(self.live)
        if rows is not None:
            self.visible = self.visible[rows]
        itself = torch.eye(self.beams, dtype=torch.bool, device=tokens.device).repeat(live, 1)
        self.visible = torch.cat([self.visible, itself], dim=1)

        ids = tokens.view(live, self.beams)
        visible = self.visible.view(live, self.beams, -1)
        hidden = self._feed(ids, self._next.expand(-1, self.beams), visible)
        self.log_probs = self._predict(hidden.flatten(0, 1))
        self._next = self._within_room(self._next + 1)

    def step_guessed(self, tokens: Tensor, guesses: Sequence[list[int]]) -> Tensor:
        """Append one token and then guessed ids to each row, in one pass; see ``keep_guessed``.

        Args:
            tokens: (rows,) next id of each row. Each stream has one row.
            guesses: Ids that may follow the token of each row; their numbers may differ.

        Returns:
            (rows, 1 + most guessed ids, vocabulary) log-probabilities after the token and after
            each guessed id; those after a row's last guess are undefined.
        """
        new = 1 + max(map(len, guesses))
        ids = F.pad(tokens[:, None], (0, new - 1))
        for row, guessed in enumerate(guesses):
            ids[row, 1 : 1 + len(guessed)] = torch.tensor(guessed, dtype=torch.long)
        offsets = torch.arange(new, device=ids.device)
        causal = (offsets <= offsets[:, None]).expand(len(ids), -1, -1)
        before = self.visible[:, None].expand(-1, new, -1)
        positions = self._within_room(self._next + offsets)
        hidden = self._feed(ids, positions, torch.cat([before, causal], dim=2))
        self.visible = F.pad(self.visible, (0, new), value=True)
        self._guessed = new - 1
        self._next = self._within_room(self._next + 1)
        return self._predict(hidden)

    def keep_guessed(self, lengths: Sequence[int]) -> None:
        """Continue after the first ids of each guess of ``step_guessed``.

        Other ids stay in the cache, masked, unless no row keeps an id at their positions.

        Args:
            lengths: Number of kept ids of each row.
        """
        kept = torch.tensor(lengths, device=self.visible.device)
        if self._guessed:
            offsets = torch.arange(self._guessed, device=kept.device)
            self.visible[:, -self._guessed :] = offsets < kept[:, None]
        rejected = self._guessed - max(lengths)
        if rejected:
            self.visible = self.visible[:, :-rejected]
            self._discard(rejected)
        self._next = self._within_room(self._next + kept[:, None])

    def _discard(self, positions: int) -> None:
        """Drop the last positions of the cache and of all records."""
        self._cache.length -= positions

    def _within_room(self, positions: Tensor) -> Tensor:
        """Limit positions to those of the decoder.

        Only ids that no answer contains can have later positions: those of finished streams,
        rejected drafts and rejected guesses.
        """
        if self._max_positions is None:
            return positions
        return positions.clamp(max=self._max_positions - 1)

    def fed_positions(self, row: int) -> Tensor:
        """Return the cache positions of the tokens fed to ``row``, counted from ``prefix``.

        The shape is (n,) int64 for n tokens.
        """
        return self.visible[row, self.prefix :].nonzero().flatten()

    @abstractmethod
    def generated(self, row: int) -> Tensor:
        """Return the decoder data of the tokens fed to ``row``; see ``Answer.generated``."""

    @abstractmethod
    def _feed(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        """Run the decoder over new tokens and append their keys and values to the cache.

        Args:
            ids: (live streams, new) token ids.
            positions: (live streams, new) position of each token in its text.
            visible: (live streams, new, cached + new) bool attention mask.

        Returns:
            (live streams, new, width) hidden states.
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
        """Return the causal mask of prompts and drafts, (streams, new, prefix + drafts) bool."""
        end = self.prefix + self._longest_draft
        keys = torch.arange(end, device=self.visible.device)
        queries = keys[self._cache.length :, None]  # (new, 1)
        causal = keys <= queries
        itself = keys == queries  # padding attends to itself, because an empty softmax is NaN
        visible = F.pad(self.visible, (0, self._longest_draft), value=True)
        return causal & visible[:, None] | itself
