"""Encoder outputs of offline backbones, which encode all kept audio when it has changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Samples

# of every backbone that encodes all kept audio and is forced to continue the written prefix
OFFLINE = frozenset({Capability.ALIGNMENT, Capability.PREFIX, Capability.AUDIO_TRIMMING})

EncodeAudio = Callable[[Sequence[Session], Sequence[Tensor]], list[Tensor]]


@dataclass(slots=True)
class StreamState:
    """What one stream keeps between requests.

    Attributes:
        memory: (frames, width), the encoder's last output.
        span: Stream position of the first sample, and number of samples, that ``memory`` was
            computed from.
        features: Of the concrete class, such as features of audio that is still kept.
        branch: Of a network that speaks: the last hypothesis among the texts decoded with it.
    """

    memory: Tensor | None = None
    span: tuple[Samples, Samples] | None = None
    features: Any = None
    branch: Any = None


def encoder_memories(
    encode: EncodeAudio, sessions: Sequence[Session], waves: Sequence[Tensor]
) -> list[Tensor]:
    """Memories of the waves; audio that was encoded last is not encoded again.

    Args:
        encode: Memories (frames, width) of waves of sessions, as a batch.
        sessions: Of the streams; their ``backbone`` is a ``StreamState``.
        waves: (n,) samples each, the front of the kept audio.
    """
    spans = [
        (session.audio_start, len(wave)) for session, wave in zip(sessions, waves, strict=True)
    ]
    new = [index for index, span in enumerate(spans) if sessions[index].backbone_state.span != span]
    if new:
        encoded = encode([sessions[index] for index in new], [waves[index] for index in new])
        for index, memory in zip(new, encoded, strict=True):
            state: StreamState = sessions[index].backbone_state
            state.memory, state.span = memory, spans[index]
    return [session.backbone_state.memory for session in sessions]


def forget_memory(session: Session, cut: Cut) -> None:
    """Drop the memory of audio that is forgotten."""
    if cut.frames:
        session.backbone_state.memory = session.backbone_state.span = None
