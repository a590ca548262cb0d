"""Streams and hypotheses made by hand, and a policy asked about them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from zoo.languages import language
from zoo.policies.base import Policy
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream
from zoo.types import Decision, Hypothesis, Request, SpeechChunk

FRAME = 10


def session(frames: int = 8, *, ended: bool = False) -> Session:
    """A stream that has heard so many frames."""
    text = TextStream(decode=lambda ids: "", separator=" ")
    made = Session(
        talk="talk",
        source_language=language("en"),
        target_language=language("de"),
        frame_samples=FRAME,
        text_stream=text,
    )
    made.receive(SpeechChunk(torch.zeros(frames * FRAME), final=ended))
    return made


def hypothesis(
    starts: str,
    *,
    prefix: int = 0,
    finished: bool = False,
    attended: Sequence[int] = (),
    frames: int = 8,
) -> Hypothesis:
    """``starts``: per token of prefix and hypothesis "w" where a word begins, "." where it goes on."""
    return Hypothesis(
        token_ids=torch.arange(prefix, len(starts)),
        word_starts=torch.tensor([start == "w" for start in starts], dtype=torch.bool),
        prefix_length=prefix,
        finished=finished,
        alignment=torch.eye(frames)[list(attended)] if attended else None,
    )


def weighed(
    starts: str, rows: Sequence[Sequence[float]], *, prefix: int = 0, finished: bool = True
) -> Hypothesis:
    """A hypothesis with these rows of attention."""
    answer = hypothesis(starts, prefix=prefix, finished=finished)
    return replace(
        answer, alignment=torch.tensor(rows, dtype=torch.float32).reshape(len(starts), -1)
    )


def decide(
    policy: Policy, answer: Hypothesis, stream: Session, state: Any = None
) -> tuple[list[Request], Decision]:
    """Run one decision, answering every request alike."""
    asking, requests = policy.decide(stream, state), []
    try:
        request = next(asking)
        while True:
            requests.append(request)
            request = asking.send(answer)
    except StopIteration as stop:
        return requests, stop.value
