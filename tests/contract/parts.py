"""Parts that come for real in later systems, as short as the contract allows: for tests only."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from zoo.policies.base import Asking, Policy
from zoo.streaming.session import Session
from zoo.synthesizers.base import Synthesizer
from zoo.types import Capability, Cut, Decision, Frames, Hypothesis, Request, Stage

DURATION = 4  # samples of speech per unit


@dataclass(slots=True)
class Looks:
    """The last transcripts with the frame at which each was made, and the words written of this sentence."""

    queue: list[tuple[Hypothesis, Frames]] = field(default_factory=list)
    words: int = 0

    def truncation(self) -> tuple[Hypothesis, Frames] | None:
        """Where StreamUni cuts: a sentence that the newest transcript has gone beyond, or silence."""
        texts = [transcript.transcript or "" for transcript, _ in self.queue]
        for text, look in list(zip(texts, self.queue, strict=True))[-2:-4:-1]:
            if text.endswith(".") and texts[-1].startswith(f"{text} "):
                return look
        return self.queue[-1] if len(texts) == 3 and len(set(texts)) == 1 else None


class Truncating(Policy):
    """StreamUni: transcribe, truncate and look again at the tail, else keep k words behind the transcript."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TRANSCRIPT, Capability.PREFIX, Capability.RECUT})

    def __init__(self, *, k: int) -> None:
        self.k = k

    def open(self) -> Looks:
        return Looks()

    def decide(self, session: Session, state: Looks) -> Asking:
        transcript = yield Request(stage=Stage.TRANSCRIPT)
        state.queue = [*state.queue[-2:], (transcript, session.frames)]
        if (truncation := state.truncation()) is not None:
            transcript, end = truncation
            whole = yield Request(audio_end=end, transcript=transcript.token_ids)
            state.queue, state.words = [], 0
            return Decision(write=whole.new, cut=Cut(tokens=whole.prefix + whole.new, frames=end), again=True)
        if session.ended:
            return Decision(write=(yield Request(transcript=transcript.token_ids)).new)
        allowed = int(transcript.word_starts.sum()) - self.k - state.words
        if allowed <= 0:
            return Decision(write=0)
        hypothesis = yield Request(transcript=transcript.token_ids, max_words=allowed)
        write = hypothesis.first_words(allowed)
        state.words += int(hypothesis.word_starts[hypothesis.prefix :][:write].sum())
        return Decision(write=write)


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
