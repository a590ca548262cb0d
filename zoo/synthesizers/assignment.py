"""From text-unit cross-attention to the speech of new tokens (SimulU, section 2, step 6).

Pure functions on one stream's attention: units to tokens, tokens to kept units, kept units to samples. Knows no
network. What the paper leaves open is a named option.
"""

from typing import Literal

import torch
from torch import Tensor

from zoo.backbones.common.alignment import z_score
from zoo.types import Samples

Normalisation = Literal["none", "share", "z_score"]
Assignment = Literal["argmax", "monotone"]
Discard = Literal["count", "last", "first", "keep_new"]


def scored(
    attention: Tensor, *, opening: int, tokens: int, offset: int, normalisation: Normalisation
) -> Tensor:
    """(units, tokens) scores, larger is likelier, of attention (units, positions) over fed decoder states.

    opening: positions before the first token; ``tokens``, at least one, follow it, then perhaps an end of text. Token t
    has the state at position ``opening + t + offset``: 0: its own; -1: the state that predicts it. Positions before the
    first and after the last one count as that token's: of several, the largest score.
    normalisation: none: log of the weights; share: log of the share of a position's weight that a unit has, which
    divides out positions that all units attend to; z_score: each position's weights over the units, as AlignAtt has it.
    """
    attention = attention.to(torch.promote_types(attention.dtype, torch.float32))
    tiny = torch.finfo(attention.dtype).tiny
    if normalisation == "z_score":
        scores = z_score(attention)
    else:
        weights = (
            attention / attention.sum(dim=0).clamp_min(tiny)
            if normalisation == "share"
            else attention
        )
        scores = weights.clamp_min(tiny).log()
    position = torch.arange(attention.shape[1], device=attention.device)
    token = (position - opening - offset).clamp(0, tokens - 1).expand_as(scores)
    return scores.new_full((len(scores), tokens), -torch.inf).scatter_reduce(
        1, token, scores, "amax"
    )


def assigned(scores: Tensor, *, assignment: Assignment) -> Tensor:
    """(units,) int64 token of each unit, from scores (units, tokens).

    argmax: of the largest score, unit by unit (section 2, step 6). monotone: of the never falling sequence with the
    largest sum of scores; tokens may be left out.
    """
    return scores.argmax(dim=1) if assignment == "argmax" else monotone(scores)


def monotone(scores: Tensor) -> Tensor:
    """(units,) int64: the best never falling sequence of tokens (Viterbi), from scores (units, tokens).

    One step per token, all units at once: the best path over the tokens so far up to each unit has the new token from
    the unit on where path less running sum was best. Of equally good paths, the one that stays longest.
    """
    units, tokens = scores.shape
    sums = torch.cat([scores.new_zeros(1, tokens), scores]).double().cumsum(dim=0)
    best = sums[:, 0]
    begins = [torch.zeros(units + 1, dtype=torch.long, device=scores.device)]
    for token in range(1, tokens):
        gain, where = (best - sums[:, token]).cummax(dim=0)
        best = gain + sums[:, token]
        begins.append(where)
    end, path = units, torch.zeros(units, dtype=torch.long)
    for token in reversed(range(tokens)):
        begin = int(begins[token][end])
        path[begin:end] = token
        end = begin
    return path.to(scores.device)


def kept(tokens: Tensor, *, old: int, discard: Discard) -> Tensor:
    """(units,) bool: the units that are written, from the token of each (units,); the first ``old`` tokens are history.

    discard: what is cut where tokens are not in order. count: as many units as belong to history, off the front
    (section 2, step 6). last: all up to the last unit of history. first: all before the first unit of a new token.
    keep_new: the units of history, wherever they stand.
    """
    history = tokens < old
    if discard == "keep_new":
        return ~history
    unit = torch.arange(len(tokens), device=tokens.device)
    if discard == "count":
        return unit >= history.sum()
    if discard == "last":
        return unit >= (unit[history].max() + 1 if bool(history.any()) else 0)
    return unit >= (unit[~history].min() if bool((~history).any()) else len(tokens))


def cut(samples: Tensor, keep: Tensor, durations: Tensor, *, unit_samples: Samples) -> Tensor:
    """The part of a waveform (n,) that its kept units (units,) sound in; ``durations`` (units,) in unit frames.

    Samples beyond the units' own belong to the last one.
    """
    inside = keep.repeat_interleave(durations * unit_samples)[: len(samples)]
    rest = len(samples) - len(inside)
    return samples[
        torch.cat([inside, inside.new_full((rest,), bool(keep.any()) and bool(keep[-1]))]).to(
            samples.device
        )
    ]
