"""Streams whose text is given: what attention does with it can be measured."""

from torch import Tensor

from zoo.base.audio import files as audio
from zoo.base.talks import Talk
from zoo.base.types import SpeechChunk
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem


def forced_stream(system: StreamingSystem, talk: Talk, token_ids: Tensor) -> Session:
    """Return a stream that has received a whole talk and written a text.

    Args:
        system: system with its weights.
        talk: the talk.
        token_ids: (n,) the text.
    """
    samples = audio.load(talk.file, start=talk.offset, duration=talk.duration)
    session = system.open(talk.name)
    session.receive(SpeechChunk(samples, final=True))
    session.prefix_ids = token_ids
    return session
