"""Parts that come for real in later systems, as short as the contract allows: for tests only."""

from typing import ClassVar

import torch
from torch import Tensor

from zoo.streaming.session import Session
from zoo.synthesizers.base import Synthesizer
from zoo.types import Capability, Hypothesis

DURATION = 4  # samples of speech per unit


def sound(states: Tensor) -> Tensor:
    """(tokens, 1) states to a wave: one to three units per token, each as loud as the state."""
    return states[:, 0].repeat_interleave(durations(states))


def durations(states: Tensor) -> Tensor:
    """(tokens,) samples of speech per token."""
    return (states[:, 0].long() % 3 + 1) * DURATION


class UnitSynthesizer(Synthesizer):
    """SimulU: speak the whole text history and the new text, then drop the units that belong to old tokens."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SPEECH})

    def speak(self, session: Session, hypothesis: Hypothesis, written: int) -> Tensor:
        assert hypothesis.states is not None
        states = hypothesis.states[: hypothesis.prefix + written]
        old = int(durations(states[: hypothesis.prefix]).sum())
        return sound(states)[old:].to(torch.float32)
