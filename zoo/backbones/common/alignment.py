"""From attention weights to an alignment of target tokens with source frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.teacher_forcing import at_least_float32
from zoo.errors import ZooError

Heads = Mapping[int, Sequence[int] | None]  # per layer the heads to use (None: all of them)


@dataclass(frozen=True, slots=True)
class AlignmentConfig:
    """Which attention aligns target tokens with source frames, and how it is processed.

    Attributes:
        layer: Of the decoder, from 0.
        heads: Of that layer (None: all); or pairs of a layer and a head, such as Whisper's
            alignment heads, and ``layer`` is ignored.
        query: The position whose attention is a token's. predicting: the position that predicts it.
            own: the position where the token itself is fed (the last token of an answer that was
            cut at a limit is not fed; its predicting position is used). mixed: own for tokens
            written before, predicting for new ones.
        normalisation: none; z_score: each frame's weights over the tokens, written and new;
            z_score_all: over all positions that were fed, the opening included (SimulStreaming).
            Fewer than three rows are not normalised: with two, every frame has the same two scores,
            up to rounding.
        median_filter: Odd width in frames of a median along the source (0: off).
        average: Whether heads are averaged first, or last, after each was normalised and filtered.
        ignore_last: Number of last frames that are left out, as long as one remains.
    """

    layer: int = 0
    heads: Sequence[int] | Sequence[Sequence[int]] | None = None
    query: Literal["predicting", "own", "mixed"] = "predicting"
    normalisation: Literal["none", "z_score", "z_score_all"] = "none"
    median_filter: int = 0
    average: Literal["first", "last"] = "first"
    ignore_last: int = 0

    def __post_init__(self) -> None:
        """Raises ZooError for no head at all, an even filter and negative numbers."""
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
        if self.median_filter < 0 or (self.median_filter and self.median_filter % 2 == 0):
            raise ZooError(
                "The alignment's median_filter must be an odd number of frames or 0, not "
                f"{self.median_filter}."
            )
        if self.ignore_last < 0:
            raise ZooError(
                f"The alignment's ignore_last must be at least 0 frames, not {self.ignore_last}."
            )

    def chosen(self, *, layers: int, heads: int) -> Heads:
        """The chosen heads per layer.

        Args:
            layers: Layers of the decoder.
            heads: Heads of each layer.

        Raises:
            ZooError: For a layer or head that the decoder lacks.
        """
        if self.heads is None:
            chosen: dict[int, list[int] | None] = {self.layer: None}
        else:
            chosen = {}
            for head in self.heads:
                layer, number = (self.layer, head) if isinstance(head, int) else head
                here = chosen.setdefault(int(layer), [])
                assert here is not None
                here.append(int(number))
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

    def align(self, rows: Tensor, *, opening: int, prefix: int, new: int) -> Tensor:
        """Align the tokens of a text.

        Args:
            rows: (positions, heads, frames) attention weights, at least one frame. Position i was
                fed token i of opening, prefix and new tokens; the last new token may be missing.
            opening: Tokens before the text, at least one.
            prefix: Tokens of the kept text.
            new: New tokens.

        Returns:
            (prefix + new, frames).
        """
        rows = rows[..., : max(1, rows.shape[-1] - self.ignore_last)]
        rows = at_least_float32(rows)
        if self.average == "first":
            rows = rows.mean(dim=1, keepdim=True)
        if self.normalisation == "z_score_all":
            rows = z_score(rows)
        places = self._places(prefix + new, opening=opening, prefix=prefix, device=rows.device)
        tokens = rows[places.clamp(max=len(rows) - 1)]
        if self.normalisation == "z_score":
            tokens = z_score(tokens)
        if self.median_filter:
            tokens = median_filter(tokens, self.median_filter)
        return tokens.mean(dim=1)

    def _places(self, tokens: int, *, opening: int, prefix: int, device: torch.device) -> Tensor:
        """(tokens,) position of each token's query: its own, or the one that predicts it."""
        token = torch.arange(tokens, device=device)
        own = {"predicting": token < 0, "own": token >= 0, "mixed": token < prefix}[self.query]
        return token + opening - 1 + own.long()


def z_score(rows: Tensor) -> Tensor:
    """Normalise (rows, heads, frames) to mean 0 and standard deviation 1 over the rows.

    A frame with equal weights in all rows becomes 0. Fewer than three rows are returned as they
    are.
    """
    if len(rows) < 3:
        return rows
    spread = rows.std(dim=0, keepdim=True)
    centred = rows - rows.mean(dim=0, keepdim=True)
    return torch.where(spread > 0, centred / spread.where(spread > 0, 1), 0)


def median_filter(rows: Tensor, width: int) -> Tensor:
    """The median of ``width`` frames around each of (..., frames), mirrored at the ends; too few
    stay as they are.
    """
    around = width // 2
    if rows.shape[-1] <= around or rows.numel() == 0:
        return rows
    padded = F.pad(rows, (around, around), mode="reflect")
    return padded.unfold(-1, width, 1).sort(dim=-1).values[..., around]
