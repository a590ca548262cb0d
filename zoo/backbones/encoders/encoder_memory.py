"""Cache of the encoder output of offline backbones.

An offline backbone encodes the kept audio of a stream whenever it has changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from zoo.backbones.decoding.batches import pick
from zoo.base.types import Capability, Cut, Samples
from zoo.streaming.session import Session
from zoo.streaming.stages import stage

# Capabilities of every backbone that encodes all kept audio and continues the emitted prefix.
OFFLINE = frozenset({Capability.ALIGNMENT, Capability.PREFIX, Capability.AUDIO_TRIMMING})
PROMPTED = OFFLINE | {Capability.CONTEXT}  # and of those that are language models

EncodeAudio = Callable[[Sequence[Session], Sequence[Tensor]], list[Tensor]]


@dataclass(slots=True)
class EncodedStreamState:
    """State of one stream between requests.

    Attributes:
        memory: (frames, width) last encoder output.
        known: Last frames of ``memory`` whose keys and values in the decoder are known. Only
            Whisper with cached silence sets it.
        span: Audio from which ``memory`` was computed: stream position of the first sample, and
            number of samples.
        features: Cache of the concrete backbone, such as features of the kept audio.
        branch: Decoder branch of the last hypothesis. Only speech-generating backbones set it.
        draft: Ids of the last hypothesis that were not emitted; the next one may begin with them.
    """

    memory: Tensor | None = None
    known: Any = None
    span: tuple[Samples, Samples] | None = None
    features: Any = None
    branch: Any = None
    draft: list[int] = field(default_factory=list)


@stage("encoder")
def encoder_memories(
    encode: EncodeAudio, sessions: Sequence[Session], waves: Sequence[Tensor]
) -> list[Tensor]:
    """Return the encoder output of each wave; a wave equal to the last one is not encoded again.

    Args:
        encode: Function from sessions and waves to one encoder output (frames, width) per wave.
        sessions: One session per stream, whose ``backbone_state`` is a ``EncodedStreamState``.
        waves: (n,) samples of each stream, a prefix of the kept audio.

    Returns:
        (frames, width) of each stream.
    """
    spans = [
        (session.audio_start, len(wave)) for session, wave in zip(sessions, waves, strict=True)
    ]
    changed = [
        index for index, span in enumerate(spans) if sessions[index].backbone_state.span != span
    ]
    if changed:
        encoded = encode(pick(sessions, changed), pick(waves, changed))
        for index, memory in zip(changed, encoded, strict=True):
            state: EncodedStreamState = sessions[index].backbone_state
            state.memory = memory
            state.span = spans[index]
    return [session.backbone_state.memory for session in sessions]


def forget_memory(session: Session, cut: Cut) -> None:
    """Discard the cached encoder output if the session drops audio frames."""
    if cut.frames:
        session.backbone_state.memory = None
        session.backbone_state.span = None
