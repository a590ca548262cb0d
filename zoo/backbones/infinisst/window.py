"""The decoder's sliding window (section 3.5): what a stream keeps and what it drops. Knows no search and no audio.

The paper keeps keys without rotation and rotates them anew at every step. Here keys stay rotated at the positions they
had in the stream; when the oldest are dropped, only the instruction's keys turn, from their first copy, to stand right
before the rest. Rotary attention sees distances only, so both are the same computation.
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
    """size: cached positions besides the kept instruction, speech and text alike, that a new turn finds at most.

    unit: tokens (the paper): exactly the newest ``size``. turns (released code): once all positions, the instruction
    among them, are more than ``size``, whole turns go, oldest first, at least one; what is kept then starts with the
    end-of-turn token of the turn before. keep_instruction: false lets the instruction go as any other positions do,
    with the first turn (section 6.3: the model then falls silent once the window slides).
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

    cache: (layers, 2, heads, kept, head size), keys and values; position of the first is ``dropped``. instruction:
    how many of the first positions are always kept (0: they belong to the first turn); anchor: (layers, heads,
    instruction, head size), their keys as first rotated. turns: positions each kept turn takes. pending: ids written
    but not yet in the cache. written: (position, id) of target tokens, oldest first.
    """

    encoder: EncoderState
    cache: Tensor
    anchor: Tensor | None = None
    instruction: int = 0
    dropped: int = 0
    turns: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """Cached positions, the instruction included."""
        return self.cache.shape[3]

    @property
    def next_position(self) -> int:
        """Position of the next token in the stream."""
        return self.dropped + self.kept


def slide(state: StreamState, config: WindowConfig, decoder: PreTrainedModel) -> None:
    """Drop the oldest positions that exceed the window; the instruction follows."""
    excess = state.kept - state.instruction - config.size
    if config.unit == "turns":
        excess = _whole_turns(state.turns, max(excess, 1)) if state.kept > config.size else 0
    if excess <= 0 or state.anchor is None:
        return
    state.dropped += excess
    instruction, rest = (
        state.cache[..., : state.instruction, :],
        state.cache[..., state.instruction + excess :, :],
    )
    state.cache = torch.cat([instruction, rest], dim=3)
    state.cache[:, 0, :, : state.instruction] = rotary_of(decoder).shift(
        state.anchor, state.dropped
    )
    while state.turns and excess >= state.turns[0]:
        excess -= state.turns.pop(0)
    if excess:
        state.turns[0] -= excess


def close(state: StreamState, prefilled: Tensor, answer: Answer, *, end: int) -> None:
    """Take a turn into the window.

    prefilled: (layers, 2, heads, kept + prompt, head size). answer: its ``generated`` are keys and values, (layers, 2,
    heads, n, head size), of its first n tokens. end: the end-of-turn id. What of the answer has no keys yet, and its
    end, goes in front of the next prompt.
    """
    if state.anchor is None:
        state.anchor = prefilled[:, 0, :, : state.instruction].clone()
    before = max(state.kept, state.instruction)
    first = state.dropped + prefilled.shape[3]
    state.written += [(first + index, token) for index, token in enumerate(answer.tokens)]
    state.cache = torch.cat([prefilled, answer.generated], dim=3)
    state.turns.append(state.kept - before)
    state.pending = [*answer.tokens, end][answer.generated.shape[3] :]


def recent(state: StreamState, lookback: int | None) -> list[int]:
    """Target ids that repetition controls look back on: the last ``lookback``, or (None) those still in the window."""
    oldest = state.dropped + state.instruction
    if lookback is None:
        state.written = [
            (position, token) for position, token in state.written if position >= oldest
        ]
    else:
        state.written = state.written[max(0, len(state.written) - lookback) :]
    return [token for _, token in state.written]


def _whole_turns(turns: list[int], excess: int) -> int:
    """The smallest number of positions of whole oldest turns that is at least ``excess``."""
    dropped = 0
    for turn in turns:
        if dropped >= excess:
            break
        dropped += turn
    return dropped
