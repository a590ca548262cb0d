"""Parts of one step of a stream."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from zoo.history.base import History
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Action, Hypothesis, Request, StreamEvent

# Whether written text is spoken before the history drops old text, or after it.
StepOrder = Literal["speech_first", "history_first"]


def record_transcript(session: Session, request: Request, transcript: str) -> None:
    """Add a transcript of the visible audio to the events of a session."""
    samples = session.visible_audio(request.audio_end).numel()
    end = (session.audio_start + samples) / SAMPLE_RATE
    session.events.append(StreamEvent("transcript", end, text=transcript.strip()))


def tokens_to_drop(
    history: History, session: Session, hypothesis: Hypothesis, new_ids: Tensor
) -> int:
    """Return how many of the kept tokens the history drops once new tokens are written.

    Args:
        history: History of the system.
        session: The stream; it does not change.
        hypothesis: The hypothesis whose first tokens are written.
        new_ids: (new,) ids of these tokens.
    """
    prefix_ids = session.prefix_ids
    session.prefix_ids = torch.cat([prefix_ids, new_ids.to(prefix_ids)])
    cut = history.trim(session, hypothesis)
    session.prefix_ids = prefix_ids
    return min(cut.tokens, prefix_ids.numel())


def concatenate(actions: Sequence[Action]) -> Action:
    """Join the outputs of the decisions of one step."""
    speech = [action.speech for action in actions if action.speech is not None]
    text = "".join(action.text for action in actions)
    return Action(text=text, speech=torch.cat(speech) if speech else None)
