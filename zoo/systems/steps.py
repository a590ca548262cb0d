"""Parts of one step of a stream."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.base.types import (
    SAMPLE_RATE,
    Action,
    Decision,
    Hypothesis,
    Request,
    Seconds,
    SpeechChunk,
    StreamEvent,
)
from zoo.history.base import History
from zoo.streaming.session import Session
from zoo.streaming.stages import stage
from zoo.systems.playback.base import Playback

# Whether written text is spoken before the history drops old text, or after it.
StepOrder = Literal["speech_first", "history_first"]


def with_end_silence(chunk: SpeechChunk, session: Session, seconds: Seconds) -> SpeechChunk:
    """Append silence to the last chunk of a source, as far as the backbone accepts it.

    Args:
        chunk: The next chunk of the stream.
        session: The stream, which has not received the chunk.
        seconds: Duration of the silence.

    Returns:
        The chunk itself if more chunks follow, or if the source is an excerpt or has no audio.
    """
    new = chunk.samples.numel()
    if not chunk.final or chunk.excerpt or not session.received_samples + new:
        return chunk
    silence = round(seconds * SAMPLE_RATE)
    if session.longest_input is not None:
        silence = max(min(silence, session.longest_input - session.audio.numel() - new), 0)
    return replace(chunk, samples=F.pad(chunk.samples, (0, silence)))


def record_transcript(session: Session, request: Request, transcript: str) -> None:
    """Add a transcript of the visible audio to the events of a session."""
    samples = session.visible_audio(request.audio_end).numel()
    end = (session.audio_start + samples) / SAMPLE_RATE
    session.events.append(StreamEvent("transcript", end, text=transcript.strip()))


def record_missing_output(session: Session, history: History, *, has_output: bool) -> None:
    """Add to the events of a session that someone has spoken for long without output.

    Args:
        session: The stream, after a step.
        history: History of the system, which may know the speech.
        has_output: Whether the step has emitted text.
    """
    speech = history.speech_without_output(session, has_output=has_output)
    if speech:
        at = session.received_samples / SAMPLE_RATE
        session.events.append(StreamEvent("no_output", at, reason=f"{speech:.0f} s of speech"))


def revise_output(session: Session, hypothesis: Hypothesis, decision: Decision) -> Action:
    """Delete the last emitted tokens and emit tokens of a hypothesis.

    Args:
        session: The stream.
        hypothesis: The last translation, which continues no tokens.
        decision: The decision about it.
    """
    revision = session.text_stream.revise(
        decision.delete,
        hypothesis.token_ids[decision.skip :][: decision.write],
        words=session.target_language.unit == "word",
    )
    return Action(text=revision.text, retracted=revision.retracted)


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
    text, retracted = "", 0
    for action in actions:
        kept = len(text) - action.retracted
        retracted += max(-kept, 0)
        text = text[: max(kept, 0)] + action.text
    return Action(text=text, speech=torch.cat(speech) if speech else None, retracted=retracted)


@stage("synthesizer")
def play_speech(
    playback: Playback | None,
    sessions: Sequence[Session],
    chunks: Sequence[SpeechChunk],
    actions: Sequence[Action],
) -> list[Action]:
    """Return the outputs of a step with their speech as it will be played.

    Args:
        playback: What shortens speech; None: nothing.
        sessions: The streams.
        chunks: What each stream has received in the step.
        actions: Output of each stream.
    """
    if playback is None:
        return list(actions)
    outputs: list[Action] = []
    for session, chunk, action in zip(sessions, chunks, actions, strict=True):
        state = session.playback_state
        playback.receive(state, chunk.samples.numel())
        speech = action.speech
        outputs.append(
            action if speech is None else replace(action, speech=playback.play(state, speech))
        )
    return outputs
