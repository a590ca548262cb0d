"""Handwritten streams and hypotheses, and a function that runs one decision of a policy."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from tests.fixtures.streams import new_session
from zoo.base.types import Decision, Hypothesis, Request
from zoo.policies.base import Policy
from zoo.streaming.session import Session

FRAME = 10


def session(frames: int = 8, *, ended: bool = False) -> Session:
    """A stream that has received ``frames`` frames."""
    audio = torch.zeros(frames * FRAME)
    return new_session(audio=audio, frame_samples=FRAME, final=ended)


def hypothesis(
    starts: str,
    *,
    prefix: int = 0,
    finished: bool = False,
    attended: Sequence[int] = (),
    frames: int = 8,
) -> Hypothesis:
    """Build a hypothesis.

    Args:
        starts: One character per token of prefix and hypothesis: "w" where a word begins, "."
            where it continues.
        prefix: Number of prefix tokens.
        finished: The hypothesis is finished.
        attended: The frame that each token attends to.
        frames: Number of frames of the alignment.
    """
    return Hypothesis(
        token_ids=torch.arange(prefix, len(starts)),
        word_starts=torch.tensor([start == "w" for start in starts], dtype=torch.bool),
        prefix_length=prefix,
        finished=finished,
        alignment=torch.eye(frames)[list(attended)] if attended else None,
    )


def with_attention(
    starts: str, rows: Sequence[Sequence[float]], *, prefix: int = 0, finished: bool = True
) -> Hypothesis:
    """Build a hypothesis with the given rows of attention."""
    answer = hypothesis(starts, prefix=prefix, finished=finished)
    return replace(
        answer, alignment=torch.tensor(rows, dtype=torch.float32).reshape(len(starts), -1)
    )


def decide(
    policy: Policy, answer: Hypothesis, stream: Session, state: Any = None
) -> tuple[list[Request], Decision]:
    """Run one decision and answer every request with the same hypothesis."""
    generator, requests = policy.decide(stream, state), []
    try:
        request = next(generator)
        while True:
            requests.append(request)
            request = generator.send(answer)
    except StopIteration as stop:
        return requests, stop.value
