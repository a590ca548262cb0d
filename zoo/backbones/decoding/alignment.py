"""Alignment of target tokens with source frames, computed from attention weights."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.backbones.decoding.teacher_forcing import at_least_float32
from zoo.base.errors import ZooError, check_numbers

# Layer index to the indices of the heads whose attention is used; None selects all heads.
Heads = Mapping[int, Sequence[int] | None]

# Frames of the widest median filter that compares values pair by pair; for wider ones, it is faster
# to sort each window.
WIDEST_PAIRWISE = 101
BLOCK = 2**15  # weights that a median filter processes at a time on a CPU, so that caches hold them


@dataclass(frozen=True, slots=True)
class AlignmentConfig:
    """Configuration of the alignment: which attention heads are used and how they are processed.

    Attributes:
        layer: Index of the decoder layer, from 0; ``all``: the mean of all layers (DOA,
            arXiv:2605.31432). Ignored if ``heads`` contains pairs.
        heads: Indices of the alignment heads in ``layer``, or pairs of a layer index and a head
            index, such as Whisper's alignment heads. None selects all heads of ``layer``.
        query: Decoder position whose attention aligns a token.
            predicting: the position that predicts the token.
            own: the position whose input is the token. If decoding stopped at the length limit, the
            last token is never an input, so the position that predicts that token is used instead.
            mixed: own for kept tokens, predicting for new tokens.
        normalisation: Normalisation of the weights of each frame.
            none: no normalisation.
            z_score: over the kept and new tokens.
            z_score_past: over the decoder positions up to the token's own query, the start ids
            included (SimulStreaming, which normalises anew after every generated token).
            Fewer than three rows are never normalised, because with two rows all frames get the
            same two scores up to rounding.
        median_filter: Width of the median filter along the source, an odd number of frames.
            0 disables the filter.
        average: When the heads are averaged. first: before normalisation and filtering.
            last: after each head has been normalised and filtered.
        ignore_last: Number of final frames that are removed. At least one frame is kept.
        ignore_first: Number of first frames that get the smallest weight of each token, because
            they attract attention for every token (``exclude_sink_frames`` of NeMo, 8). The last
            frame keeps its weight.
    """

    layer: int | Literal["all"] = 0
    heads: Sequence[int] | Sequence[Sequence[int]] | None = None
    query: Literal["predicting", "own", "mixed"] = "predicting"
    normalisation: Literal["none", "z_score", "z_score_past"] = "none"
    median_filter: int = 0
    average: Literal["first", "last"] = "first"
    ignore_last: int = 0
    ignore_first: int = 0

    def __post_init__(self) -> None:
        """Raises ZooError for malformed heads or layers, an even filter, and negative numbers."""
        if isinstance(self.layer, str) and self.layer != "all":
            raise ZooError(f"The alignment's layer is a number or all, not {self.layer!r}.")
        if self.heads is not None and len(self.heads) == 0:
            raise ZooError(
                "The alignment needs at least one head, or heads=null for all of the layer."
            )
        sizes = {1 if isinstance(head, int) else len(head) for head in self.heads or [0]}
        if sizes not in ({1}, {2}):
            raise ZooError(
                "The alignment's heads are numbers, or all pairs of a layer and a head, not "
                f"{self.heads}."
            )
        if self.layer == "all" and self.heads is not None and sizes == {1}:
            raise ZooError(
                "The alignment's heads are pairs of a layer and a head, or all of the layers "
                f"(heads=null), with layer=all, not {self.heads}."
            )
        if self.median_filter < 0 or (self.median_filter and self.median_filter % 2 == 0):
            raise ZooError(
                "The alignment's median_filter must be an odd number of frames or 0, not "
                f"{self.median_filter}."
            )
        check_numbers(
            "The alignment", least=0, ignore_last=self.ignore_last, ignore_first=self.ignore_first
        )

    def chosen(self, *, layers: int, heads: int) -> Heads:
        """Return the configured heads by layer.

        Args:
            layers: Number of decoder layers.
            heads: Number of attention heads per layer.

        Raises:
            ZooError: If a configured layer or head does not exist in the decoder.
        """
        chosen: dict[int, list[int] | None] = {}
        if self.heads is None:
            selected = range(layers) if isinstance(self.layer, str) else [self.layer]
            chosen = dict.fromkeys(selected)
        else:
            for head in self.heads:
                layer, number = (self.layer, head) if isinstance(head, int) else head
                layer_heads = chosen.setdefault(int(layer), [])
                assert layer_heads is not None
                layer_heads.append(int(number))
        for layer, numbers in chosen.items():
            if not 0 <= layer < layers:
                raise ZooError(
                    f"The alignment names layer {layer}, but the decoder's layers are 0 to "
                    f"{layers - 1}."
                )
            for number in numbers or []:
                if not 0 <= number < heads:
                    raise ZooError(
                        f"The alignment names head {number} of layer {layer}, but its heads are 0 "
                        f"to {heads - 1}."
                    )
        return chosen

    def averaged(self, rows: Tensor) -> Tensor:
        """Return (..., heads, frames) weights in at least float32, averaged if this comes first."""
        rows = at_least_float32(rows)
        return rows.mean(dim=-2, keepdim=True) if self.average == "first" else rows

    def filtered(self, rows: Tensor, frames: Tensor | None = None) -> Tensor:
        """Apply the last steps: median filter, average, and the exclusion of first frames.

        Args:
            rows: (n, heads, longest) normalised weights, one token per row.
            frames: (n,) number of frames of each row; None: all columns.

        Returns:
            (n, longest) weights.
        """
        if self.median_filter:
            lengths = None if frames is None else frames[:, None, None]
            rows = median_filter(rows, self.median_filter, lengths)
        weights = rows.mean(dim=1)
        if not self.ignore_first or not weights.numel():
            return weights
        longest = weights.shape[1]
        last = longest - 1 if frames is None else frames[:, None] - 1
        index = torch.arange(longest, device=weights.device).expand_as(weights)
        is_first = (index < self.ignore_first) & (index < last)
        return weights.where(~is_first, weights.amin(dim=1, keepdim=True))

    def align(self, rows: Tensor, *, opening: int, prefix: int, new: int) -> Tensor:
        """Align the tokens of a text.

        Example:
            The decoder inputs are <s> <de> A B C: two start ids (``opening``), the kept token A
            (``prefix``) and the new tokens B and C. ``rows`` are r0 to r4 in this order. The
            alignment has one row per token A, B, C: r1, r2, r3 with query "predicting" (<de>
            predicts A), r2, r3, r4 with "own", and r2, r2, r3 with "mixed". If decoding stopped at
            C, r4 is missing, and "own" gives r2, r3, r3.

        Args:
            rows: (positions, heads, frames) attention weights, at least one frame. The decoder
                inputs are the start ids, the kept tokens and the new tokens, in this order. The
                last new token may be missing.
            opening: Number of positions before the text, at least one.
            prefix: Number of kept tokens.
            new: Number of new tokens.

        Returns:
            (prefix + new, frames) weights, at least float32.
        """
        kept_frames = max(1, rows.shape[-1] - self.ignore_last)
        rows = self.averaged(rows[..., :kept_frames])
        if self.normalisation == "z_score_past":
            rows = z_score_past(rows)

        positions = self._query_positions(
            prefix + new, opening=opening, prefix=prefix, device=rows.device
        )
        last_position = len(rows) - 1
        token_rows = rows[positions.clamp(max=last_position)]  # (prefix + new, heads, frames)

        if self.normalisation == "z_score":
            token_rows = z_score(token_rows)
        return self.filtered(token_rows)

    def _query_positions(
        self, tokens: int, *, opening: int, prefix: int, device: torch.device
    ) -> Tensor:
        """Return the decoder position of each token's query, (tokens,) int64; see ``query``."""
        index = torch.arange(tokens, device=device)
        predicting_position = index + opening - 1
        own_position = predicting_position + 1
        if self.query == "predicting":
            return predicting_position
        if self.query == "own":
            return own_position
        return torch.where(index < prefix, own_position, predicting_position)


class HeadAlignment(ABC):
    """A backbone whose alignment is computed from attention heads of its decoder.

    Attributes:
        alignment: Choice and processing of the heads.
        tokenizer: Tokenizer of the target text.
        heads: The chosen heads by layer. Available after ``align_with``, which ``load`` calls.
    """

    alignment: AlignmentConfig
    tokenizer: PreTrainedTokenizerBase
    heads: Heads

    @property
    @abstractmethod
    def attention_shape(self) -> tuple[int, int]:
        """Number of decoder layers, and of attention heads per layer; needs the network."""

    def align_with(self, alignment: AlignmentConfig) -> None:
        """Use these heads from now on.

        Raises ZooError if the decoder lacks a configured layer or head.
        """
        layers, heads = self.attention_shape
        self.heads = alignment.chosen(layers=layers, heads=heads)
        self.alignment = alignment


@dataclass(frozen=True)
class EveryHead(AlignmentConfig):
    """Each head of each layer by itself: alignments are (prefix + new, heads, frames).

    The heads are in the order of the layers. Layer, heads and average are not used.
    """

    def chosen(self, *, layers: int, heads: int) -> Heads:
        """Return all heads of all layers."""
        return dict.fromkeys(range(layers))

    def align(self, rows: Tensor, *, opening: int, prefix: int, new: int) -> Tensor:
        """Align the tokens of a text by each head.

        Args:
            rows: (positions, heads, frames) attention weights.
            opening: Number of positions before the text.
            prefix: Number of kept tokens.
            new: Number of new tokens.

        Returns:
            (prefix + new, heads, frames) weights, at least float32.
        """
        counts = {"opening": opening, "prefix": prefix, "new": new}
        single = [AlignmentConfig.align(self, head, **counts) for head in rows.split(1, dim=1)]
        return torch.stack(single, dim=1)


def z_score(rows: Tensor) -> Tensor:
    """Normalise (rows, heads, frames) to mean 0 and standard deviation 1 over the rows.

    If all rows have the same weight for a frame, the normalised weights of that frame are 0. Fewer
    than three rows are returned unchanged (a single row of simulstream becomes NaN).
    """
    if len(rows) < 3:
        return rows
    spread = rows.std(dim=0, keepdim=True)
    centred = rows - rows.mean(dim=0, keepdim=True)
    return torch.where(spread > 0, centred / spread.where(spread > 0, 1), 0)


def z_score_past(rows: Tensor) -> Tensor:
    """Normalise each of (rows, heads, frames) by the statistics of the rows up to it.

    The first two rows are returned unchanged; see ``z_score``. A variance is a small difference of
    large sums: the sums are in float64, and of the differences from the first row.
    """
    exact = (rows - rows[:1]).double()
    count = torch.arange(1, len(rows) + 1, device=rows.device)[:, None, None]
    scores = _standardised(exact, count, exact.cumsum(dim=0), exact.square().cumsum(dim=0))
    return torch.cat([rows[:2], scores[2:].to(rows)])


def _standardised(exact: Tensor, count: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """Return float64 ``exact`` with mean 0 and deviation 1 over ``count`` rows of these sums."""
    mean = total / count
    spread = ((squares - count * mean.square()).clamp_min(0) / (count - 1).clamp_min(1)).sqrt()
    return torch.where(spread > 0, (exact - mean) / spread.where(spread > 0, 1), 0)


class PastScores:
    """``z_score_past`` of several texts whose rows arrive one by one."""

    def __init__(self, texts: Sequence[Tensor]) -> None:
        """Sum the first rows of each text.

        Args:
            texts: (rows, heads, frames) weights of each text, at least one row.
        """
        longest = max(rows.shape[-1] for rows in texts)
        padded = [F.pad(rows, (0, longest - rows.shape[-1])) for rows in texts]
        self.first = torch.stack([rows[0] for rows in padded])  # (n, heads, longest)
        differences = [(rows - rows[:1]).double() for rows in padded]
        self.total = torch.stack([exact.cumsum(dim=0)[-1] for exact in differences])
        self.squares = torch.stack([exact.square().cumsum(dim=0)[-1] for exact in differences])
        counts = [len(rows) for rows in texts]
        self.count = torch.tensor(counts, device=self.first.device)[:, None, None]
        self.newest = torch.stack([rows[-1] for rows in padded])

    def add(self, rows: Tensor) -> None:
        """Add the next row of each text, (n, heads, longest)."""
        exact = (rows - self.first).double()
        self.total = self.total + exact
        self.squares = self.squares + exact.square()
        self.count = self.count + 1
        self.newest = rows

    def keep(self, texts: Sequence[int]) -> None:
        """Keep the texts with these indices, in this order."""
        self.first, self.newest = self.first[texts], self.newest[texts]
        self.total, self.squares = self.total[texts], self.squares[texts]
        self.count = self.count[texts]

    def scores(self) -> Tensor:
        """Return the scores of the newest row of each text, (n, heads, longest)."""
        exact = (self.newest - self.first).double()
        scores = _standardised(exact, self.count, self.total, self.squares).to(self.newest)
        return torch.where(self.count < 3, self.newest, scores)


def median_filter(rows: Tensor, width: int, lengths: Tensor | None = None) -> Tensor:
    """Replace each frame of (..., frames) by the median of the ``width`` frames around the frame.

    The ends are padded by reflection. A row of at most ``width // 2`` frames, too short for the
    reflection, is returned unchanged.

    Args:
        rows: (..., frames) weights.
        width: Width of the filter, an odd number of frames.
        lengths: Number of frames of each row, of a shape that broadcasts to (..., 1); later columns
            are padding. None: all frames.
    """
    radius, frames = width // 2, rows.shape[-1]
    if rows.numel() == 0:
        return rows
    last = (torch.tensor(frames, device=rows.device) if lengths is None else lengths) - 1
    # (..., frames + 2 * radius) columns of the padded rows; those outside are reflected
    columns = torch.arange(-radius, frames + radius, device=rows.device).abs()
    columns = torch.where(columns > last, 2 * last - columns, columns).clamp(0, frames - 1)
    padded = rows.gather(-1, columns.expand(*rows.shape[:-1], -1))
    if width > WIDEST_PAIRWISE:
        filtered = padded.unfold(-1, width, 1).sort(dim=-1).values[..., radius]
    else:
        flat = padded.reshape(-1, padded.shape[-1])
        size = max(1, BLOCK // frames) if rows.device.type == "cpu" else len(flat)
        blocks = [
            median_of([block[:, first : first + frames] for first in range(width)])
            for block in flat.split(size)
        ]
        filtered = torch.cat(blocks).view(rows.shape)
    return torch.where(last >= radius, filtered, rows)


def median_of(tensors: Sequence[Tensor]) -> Tensor:
    """Return the median of an odd number of tensors of one shape, element by element.

    The smallest and the largest of more than half of the values cannot be the median of all. They
    are dropped and one of the other values is added, until one value remains.
    """
    count = len(tensors) // 2 + 2
    candidates, others = list(tensors[:count]), list(tensors[count:])
    while len(candidates) > 1:
        last, half = len(candidates) - 1, len(candidates) // 2
        pairs = [(index, last - index) for index in range(half)]
        pairs += [(0, index) for index in range(1, last // 2 + 1)]  # the smallest value moves to 0
        pairs += [(index, last) for index in range(half, last)]  # the largest value moves to last
        for low, high in pairs:
            first, second = candidates[low], candidates[high]
            candidates[low], candidates[high] = first.minimum(second), first.maximum(second)
        candidates = [*candidates[1:last], *others[:1]]
        others = others[1:]
    return candidates[0]
