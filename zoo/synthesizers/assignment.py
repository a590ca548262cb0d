"""From the attention of speech units over text tokens to the waveform of the new tokens.

This is step 6 of SimulU (Djanibekov et al., 2026, section 2), as pure functions on one stream:
score each unit against each token, assign units to tokens, select the units of the new tokens, and
cut their samples out of the waveform. Each choice that the paper does not make is a named option.

A unit is a speech unit: an output of the text-to-unit model and an input of the vocoder.
"""

from typing import Literal

import torch
from torch import Tensor

from zoo.backbones.decoding.alignment import z_score
from zoo.base.types import Samples

Normalisation = Literal["none", "share", "z_score"]
Assignment = Literal["argmax", "monotone"]
TokenDiscard = Literal["count", "last", "first", "keep_new"]
Discard = Literal[TokenDiscard, "split"]


def unit_token_scores(
    attention: Tensor, *, opening: int, tokens: int, offset: int, normalisation: Normalisation
) -> Tensor:
    """Score how likely each unit belongs to each token.

    Positions before the first token count as the first token, positions after the last token as
    the last token; a token with several positions has the largest of their scores.

    Args:
        attention: (units, positions) cross-attention weights of the text-to-unit decoder over the
            text decoder states it received.
        opening: number of positions before the first token (start and language).
        tokens: number of tokens, at least 1; positions after them (end of text) are allowed.
        offset: shift of the positions: token ``t`` is at position ``opening + t + offset``. With 0
            it is at the state of the token itself, with -1 at the state that predicts the token.
        normalisation: conversion of weights to scores. ``none``: log of the weights; ``share``: log
            of each position's weights divided by their sum over the units, so that positions to
            which all units attend have no advantage; ``z_score``: weights standardised over the
            units, as in AlignAtt.

    Returns:
        (units, tokens) scores; a larger score is more likely.
    """
    attention = attention.to(torch.promote_types(attention.dtype, torch.float32))
    smallest = torch.finfo(attention.dtype).tiny
    if normalisation == "z_score":
        scores = z_score(attention)
    elif normalisation == "share":
        weights = attention / attention.sum(dim=0).clamp_min(smallest)
        scores = weights.clamp_min(smallest).log()
    else:
        scores = attention.clamp_min(smallest).log()

    position = torch.arange(attention.shape[1], device=attention.device)
    token = (position - opening - offset).clamp(0, tokens - 1).expand_as(scores)
    lowest = scores.new_full((len(scores), tokens), -torch.inf)
    return lowest.scatter_reduce(1, token, scores, "amax")


def assign_units(scores: Tensor, *, assignment: Assignment) -> Tensor:
    """Assign each unit to a token.

    Args:
        scores: (units, tokens) scores of ``unit_token_scores``.
        assignment: rule. ``argmax`` assigns each unit to the token with its largest score, as
            SimulU does; ``monotone``: see ``monotone_assignment``.

    Returns:
        (units,) int64 token indices.
    """
    return scores.argmax(dim=1) if assignment == "argmax" else monotone_assignment(scores)


def monotone_assignment(scores: Tensor) -> Tensor:
    """Find the non-decreasing token sequence with the largest sum of scores (Viterbi).

    Tokens may be skipped. The recursion runs over tokens, for all units at once: with the running
    sums S[u] of a token's scores, the best path up to unit u that ends in this token starts the
    token at the unit b <= u that maximises best[b] - S[b]. Ties go to the latest such unit.

    Args:
        scores: (units, tokens).

    Returns:
        (units,) int64 token indices.
    """
    units, tokens = scores.shape
    sums = torch.cat([scores.new_zeros(1, tokens), scores]).double().cumsum(dim=0)
    best = sums[:, 0]
    starts = [torch.zeros(units + 1, dtype=torch.long, device=scores.device)]
    for token in range(1, tokens):
        gain, start = (best - sums[:, token]).cummax(dim=0)
        best = gain + sums[:, token]
        starts.append(start)

    end, path = units, torch.zeros(units, dtype=torch.long)
    for token in reversed(range(tokens)):
        start_unit = int(starts[token][end])
        path[start_unit:end] = token
        end = start_unit
    return path.to(scores.device)


def split_units(scores: Tensor, *, old: int) -> Tensor:
    """Select the units of the new tokens by the best split of the units into two runs.

    A unit is compared with all tokens of the history and with all new tokens, by the logarithm of
    the sum of exp(score). The split has the largest sum of these values, of the history for the
    units before it and of the new tokens for the units after it. One unit with a wrong largest
    score does not move it, as it moves a count. Ties go to the first split.

    Args:
        scores: (units, tokens) scores of ``unit_token_scores``.
        old: number of tokens of the text history; they precede the new tokens.

    Returns:
        (units,) bool, True for units to keep.
    """
    units, tokens = scores.shape
    unit = torch.arange(units, device=scores.device)
    if old in (0, tokens):
        return unit >= (units if old else 0)
    scores = scores.double()
    gains = scores[:, :old].logsumexp(dim=1) - scores[:, old:].logsumexp(dim=1)
    sums = torch.cat([gains.new_zeros(1), gains.cumsum(dim=0)])
    return unit >= sums.argmax()


def new_unit_mask(tokens: Tensor, *, old: int, discard: TokenDiscard) -> Tensor:
    """Select the units that belong to the new tokens.

    The four rules differ only if the assigned tokens are not in order.

    Args:
        tokens: (units,) token index of each unit.
        old: number of tokens of the text history; they precede the new tokens.
        discard: rule for the units to discard. ``count``: as many leading units as belong to the
            history, as in SimulU; ``last``: all units up to the last unit of the history;
            ``first``: all units before the first unit of a new token; ``keep_new``: the units of
            the history at any position.

    Returns:
        (units,) bool, True for units to keep.
    """
    history = tokens < old
    if discard == "keep_new":
        return ~history

    unit = torch.arange(len(tokens), device=tokens.device)
    if discard == "count":
        return unit >= history.sum()
    if discard == "last":
        if not bool(history.any()):
            return ~history
        return unit > unit[history].max()
    if not bool((~history).any()):
        return ~history
    return unit >= unit[~history].min()


def select_samples(
    samples: Tensor, keep: Tensor, durations: Tensor, *, unit_samples: Samples
) -> Tensor:
    """Cut the samples of the selected units out of a waveform.

    Args:
        samples: (n,) waveform; samples after the last unit belong to the last unit.
        keep: (units,) bool, True for units to keep.
        durations: (units,) int64 duration of each unit in unit frames.
        unit_samples: samples per unit frame.

    Returns:
        (m,) the kept samples, concatenated.
    """
    mask = keep.repeat_interleave(durations * unit_samples)[: len(samples)]
    keep_tail = bool(keep.any()) and bool(keep[-1])
    tail_mask = mask.new_full((len(samples) - len(mask),), keep_tail)
    return samples[torch.cat([mask, tail_mask]).to(samples.device)]
