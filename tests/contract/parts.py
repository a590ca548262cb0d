"""Parts as short as the contract allows: for tests only."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tests.contract.scripted import OPENING
from zoo.base.types import Capability
from zoo.streaming.session import SpeechRequest
from zoo.synthesizers.base import Synthesizer

DURATION = 4  # samples of speech per unit


def sound(states: Tensor) -> Tensor:
    """(tokens, 1) states to a wave: one to three units per token, each as loud as the state."""
    return states[:, 0].repeat_interleave(durations(states))


def durations(states: Tensor) -> Tensor:
    """(tokens,) samples of speech per token."""
    return (states[:, 0].long() % 3 + 1) * DURATION


class UnitSynthesizer(Synthesizer):
    """SimulU synthesises text history and new text, then drops the units of old tokens."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SPEECH})

    def __init__(self) -> None:
        self.batches: list[int] = []

    def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
        self.batches.append(len(requests))
        return [self.wave(request) for request in requests]

    def wave(self, request: SpeechRequest) -> Tensor:
        """The new tokens' part of the speech of all that is kept."""
        hypothesis = request.hypothesis
        assert hypothesis.decoder_states is not None
        states = hypothesis.decoder_states[
            OPENING : OPENING + hypothesis.prefix_length + request.tokens
        ]
        old = int(durations(states[: hypothesis.prefix_length]).sum())
        return sound(states)[old:].to(torch.float32)
