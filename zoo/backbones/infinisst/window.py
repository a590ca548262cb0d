"""The decoder's sliding window (section 3.5): what a stream keeps between turns, and what it drops.

The paper caches keys without rotation and rotates all of them at every step. Here cached keys stay
rotated at the positions they had in the stream. When the oldest are dropped, only the instruction's
keys are rotated again, from their first copy, to the positions right before the rest. Rotary
attention depends on distances only, so both compute the same.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.causal.decoder import rotary_of
from zoo.backbones.common.search import Answer
from zoo.backbones.common.wav2vec2.encoder import EncoderState
from zoo.errors import ZooError


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """Size of the window.

    Attributes:
        size: Most cached positions besides the kept instruction, speech and text alike, before a
            new turn.
        unit: What is dropped. tokens (the paper): all but the newest ``size`` positions. turns
            (released code): once all positions, the instruction included, exceed ``size``, whole
            turns, oldest first and at least one; the window then begins with the end-of-turn token
            of the last dropped turn.
        keep_instruction: Whether the instruction stays; otherwise it is dropped with the first turn
            (section 6.3: the model then emits nothing once the window slides).
    """

    size: int = 1000
    unit: Literal["tokens", "turns"] = "tokens"
    keep_instruction: bool = True

    def __post_init__(self) -> None:
        """Raises ZooError for a negative size."""
        if self.size < 0:
            raise ZooError(f"The window needs a size of at least 0, not {self.size}.")


@dataclass(slots=True)
class StreamState:
    """What one stream keeps between turns.

    Attributes:
        encoder: State of the speech encoder.
        cache: (layers, 2, heads, kept, head size), keys and values; the first has position
            ``dropped``.
        anchor: (layers, heads, instruction, head size), the instruction's keys as first rotated;
            None before the first turn.
        instruction: Number of first positions that are always kept (0: they belong to the first
            turn).
        dropped: Number of positions that were dropped.
        turns: Positions of each kept turn.
        pending: Ids that were generated but not fed yet.
        target_tokens: (position, id) of target tokens, oldest first.
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
    def kept(self) -> int:
        """Cached positions, the instruction included."""
        return self.cache.shape[3]

    @property
    def next_position(self) -> int:
        """Position of the next token in the stream."""
        return self.dropped + self.kept


def slide(state: StreamState, config: WindowConfig, decoder: PreTrainedModel) -> None:
    """Drop the oldest positions that exceed the window and move the instruction before the rest.

    Args:
        state: Of the stream; changed in place.
        config: Size of the window.
        decoder: Made by ``build_decoder``; its rotary angles are used.
    """
    excess = state.kept - state.instruction - config.size
    if config.unit == "turns":
        excess = _whole_turns(state.turns, max(excess, 1)) if state.kept > config.size else 0
    if excess <= 0 or state.anchor is None:
        return

    state.dropped += excess
    instruction = state.cache[..., : state.instruction, :]
    rest = state.cache[..., state.instruction + excess :, :]
    state.cache = torch.cat([instruction, rest], dim=3)
    state.cache[:, 0, :, : state.instruction] = rotary_of(decoder).shift(
        state.anchor, state.dropped
    )
    while state.turns and excess >= state.turns[0]:
        excess -= state.turns.pop(0)
    if excess:
        state.turns[0] -= excess


def append_turn(state: StreamState, prefilled: Tensor, answer: Answer, *, end: int) -> None:
    """Add a finished turn to the window.

    Ids of the answer that were not fed, and its end, go before the next prompt.

    Args:
        state: Of the stream; changed in place.
        prefilled: (layers, 2, heads, kept + prompt, head size), keys and values.
        answer: Its ``generated`` are keys and values of its first n tokens, (layers, 2, heads, n,
            head size).
        end: The end-of-turn id.
    """
    if state.anchor is None:
        state.anchor = prefilled[:, 0, :, : state.instruction].clone()
    before = max(state.kept, state.instruction)
    first = state.dropped + prefilled.shape[3]
    state.target_tokens += [(first + index, token) for index, token in enumerate(answer.tokens)]
    state.cache = torch.cat([prefilled, answer.generated], dim=3)
    state.turns.append(state.kept - before)
    state.pending = [*answer.tokens, end][answer.generated.shape[3] :]


def recent_ids(state: StreamState, lookback: int | None) -> list[int]:
    """Target ids for repetition controls: the last ``lookback``, or (None) those still in the
    window.

    Older ones are removed from the state.
    """
    if lookback is None:
        oldest = state.dropped + state.instruction
        state.target_tokens = [
            (position, token) for position, token in state.target_tokens if position >= oldest
        ]
    else:
        state.target_tokens = state.target_tokens[max(0, len(state.target_tokens) - lookback) :]
    return [token for _, token in state.target_tokens]


def _whole_turns(turns: list[int], excess: int) -> int:
    """The smallest number of positions of whole oldest turns that is at least ``excess``."""
    dropped = 0
    for turn in turns:
        if dropped >= excess:
            break
        dropped += turn
    return dropped
