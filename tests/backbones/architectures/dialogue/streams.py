"""Streams of noise in a dialogue, turn by turn."""

from collections.abc import Sequence

from torch import Tensor

from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.architectures.dialogue.dialogue import Dialogue
from zoo.base.types import Hypothesis, Request, SpeechChunk
from zoo.streaming.session import Session

CHUNK = 7680  # samples of a turn: 0.48 s, whole source frames


def chunks(turns: int, *, seed: int = 0) -> list[Tensor]:
    """Noise that becomes louder and softer, in chunks of 0.48 s; the last one is shorter."""
    noise = white_noise(turns * CHUNK - 3001, seed)
    return [part * (0.05 + index % 3) for index, part in enumerate(noise.split(CHUNK))]


def take_turns(
    backbone: Dialogue, streams: Sequence[Sequence[Tensor]]
) -> tuple[list[list[Hypothesis]], list[Session]]:
    """Stream the chunks of all streams as a batch that ended streams leave.

    Returns:
        The turns of each stream, and the sessions.
    """
    sessions = [new_session(backbone) for _ in streams]
    turns: list[list[Hypothesis]] = [[] for _ in streams]
    for step in range(max(map(len, streams))):
        live = [index for index, stream in enumerate(streams) if step < len(stream)]
        for index in live:
            final = step == len(streams[index]) - 1
            sessions[index].receive(SpeechChunk(streams[index][step], final=final))
        requests = [Request()] * len(live)
        found = backbone.decode([sessions[index] for index in live], requests, frozenset())
        for index, hypothesis in zip(live, found, strict=True):
            backbone.commit(sessions[index], hypothesis, hypothesis.num_new_tokens)
            turns[index].append(hypothesis)
    return turns, sessions


def ids(turns: Sequence[Hypothesis]) -> list[list[int]]:
    """Token ids of each turn."""
    return [turn.token_ids.tolist() for turn in turns]
