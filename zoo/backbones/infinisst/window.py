"""The decoder's sliding window of keys and values (InfiniSST, section 3.5).

The paper caches keys without rotary position embedding and rotates all cached keys at every step.
Here the cache keeps each key rotated at the position of its token in the stream. When the oldest
positions are dropped, only the keys of the instruction are rotated again: an unchanged copy of
these keys is rotated to the positions directly before the oldest remaining key. Rotary attention
depends only on the distance between positions, so both methods compute the same attention weights.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.decoding.causal.decoder import rotary_of
from zoo.backbones.decoding.continuation import Answer
from zoo.backbones.encoders.wav2vec2.encoder import EncoderState
from zoo.base.errors import check_numbers


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """Size of the sliding window and the rule that drops positions.

    Attributes:
        size: Maximum number of cached positions before a new turn. Speech embeddings and text
            tokens each take one position.
        unit: Unit of dropping. ``tokens`` (the paper) keeps the newest ``size`` positions; a kept
            instruction does not count. ``turns`` (released code) drops whole turns, oldest first
            and at least one turn, when the cached positions exceed ``size``; the instruction
            counts. The end-of-turn token of the last dropped turn remains in the window.
        keep_instruction: Whether the instruction always stays. False drops the instruction with the
            first turn (section 6.3: the model then emits nothing once the window slides).
    """

    size: int = 1000
    unit: Literal["tokens", "turns"] = "tokens"
    keep_instruction: bool = True

    def __post_init__(self) -> None:
        """Raises ZooError if ``size`` is negative."""
        check_numbers("The window", least=0, size=self.size)


@dataclass(slots=True)
class WindowState:
    """State of one stream between turns: encoder state, keys and values, and target ids.

    Attributes:
        encoder: State of the streaming speech encoder.
        cache: (layers, 2, heads, kept, head size) keys and values of the decoder. The first cached
            key is rotated at position ``dropped``.
        anchor: (layers, heads, instruction, head size) keys of the instruction, rotated at
            positions 0 to ``instruction`` - 1. None before the first turn.
        instruction: Number of positions of the instruction, which are never dropped. 0 if the
            instruction is dropped with the first turn.
        dropped: Number of positions dropped so far.
        turns: Number of positions of each kept turn, oldest first.
        pending: Generated ids that the decoder has not received yet.
        target_tokens: Pairs (position, id) of the target tokens, oldest first.
    """

    encoder: EncoderState
    cache: Tensor
    anchor: Tensor | None = None
    instruction: int = 0
    dropped: int = 0
    turns: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    target_tokens: list[tuple[int, int]] = field(default_factory=list)

    @property
    def num_cached(self) -> int:
        """Number of cached positions, the instruction included."""
        return self.cache.shape[3]

    @property
    def next_position(self) -> int:
        """Position of the next token in the stream."""
        return self.dropped + self.num_cached


def slide(state: WindowState, config: WindowConfig, decoder: PreTrainedModel) -> None:
    """Drop the oldest positions that exceed the window, and rotate the instruction's keys again.

    Args:
        state: State of the stream, changed in place.
        config: Size of the window.
        decoder: Language model of ``build_decoder``, which defines the rotary angles.
    """
    excess = state.num_cached - state.instruction - config.size
    if config.unit == "turns" and state.num_cached > config.size:
        excess = _whole_turns(state.turns, max(excess, 1))
    elif config.unit == "turns":
        excess = 0
    if excess <= 0 or state.anchor is None:
        return

    state.dropped += excess
    instruction = state.cache[..., : state.instruction, :]
    newest = state.cache[..., state.instruction + excess :, :]
    state.cache = torch.cat([instruction, newest], dim=3)
    state.cache[:, 0, :, : state.instruction] = rotary_of(decoder).shift(
        state.anchor, state.dropped
    )

    # If a turn is dropped in part, its remaining positions are kept.
    while state.turns and excess >= state.turns[0]:
        excess -= state.turns.pop(0)
    if excess:
        state.turns[0] -= excess


def append_turn(state: WindowState, prefilled: Tensor, answer: Answer, *, end: int) -> None:
    """Add a finished turn to the window.

    Ids that the decoder has generated but not received become ``pending``: the last ids of the
    answer, if any, and the end-of-turn id. The next prompt begins with the pending ids.

    Args:
        state: State of the stream, changed in place.
        prefilled: (layers, 2, heads, kept + prompt, head size) keys and values.
        answer: Generated turn of n or more tokens. ``answer.generated``, (layers, 2, heads, n, head
            size), has the keys and values of the first n tokens.
        end: End-of-turn id.
    """
    if state.anchor is None:
        state.anchor = prefilled[:, 0, :, : state.instruction].clone()

    kept_before = max(state.num_cached, state.instruction)
    first_position = state.dropped + prefilled.shape[3]
    state.target_tokens += [
        (first_position + index, token) for index, token in enumerate(answer.tokens)
    ]
    state.cache = torch.cat([prefilled, answer.generated], dim=3)
    state.turns.append(state.num_cached - kept_before)

    num_received = answer.generated.shape[3]
    state.pending = [*answer.tokens, end][num_received:]


def recent_ids(state: WindowState, lookback: int | None) -> list[int]:
    """Return the target ids that the repetition controls consider, and forget all older ids.

    Args:
        state: State of the stream; older ids are removed from ``target_tokens``.
        lookback: Number of most recent target ids. None considers all target ids in the window.
    """
    if lookback is None:
        oldest_position = state.dropped + state.instruction
        state.target_tokens = [
            (position, token)
            for position, token in state.target_tokens
            if position >= oldest_position
        ]
    else:
        first = max(0, len(state.target_tokens) - lookback)
        state.target_tokens = state.target_tokens[first:]
    return [token for _, token in state.target_tokens]


def _whole_turns(turns: list[int], excess: int) -> int:
    """Return how many positions to drop so that whole turns, oldest first, cover ``excess``.

    Args:
        turns: Number of positions of each turn, oldest first.
        excess: Minimum number of positions to drop.
    """
    dropped = 0
    for num_positions in turns:
        if dropped >= excess:
            break
        dropped += num_positions
    return dropped
