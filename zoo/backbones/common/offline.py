"""What offline backbones share: all kept audio is heard anew at every look. Knows no network and no text."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Samples


@dataclass(slots=True)
class StreamState:
    """What one stream keeps between looks.

    memory: (frames, width), what was heard last. heard: first sample and number of samples it was made from.
    features: of the concrete class, such as features of audio that is still kept. branch: of a network that speaks,
    where the last hypothesis stands among the texts it was decoded with.
    """

    memory: Tensor | None = None
    heard: tuple[Samples, Samples] | None = None
    features: Any = None
    branch: Any = None


class Listener(Backbone):
    """Hears all kept audio anew, but what it heard last not again; what was written is forced at every look."""

    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.ALIGNMENT, Capability.PREFIX, Capability.AUDIO_TRIMMING}
    )

    @abstractmethod
    def listen(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encoder memory (frames, width) of each wave (n,), as a batch; no frames where a wave is too short for one.

        A wave is the front of its session's kept audio; frame i of a memory stands for samples from
        i x ``frame_samples`` on. Frames beyond the wave (Whisper's 30 s) are attended to, but not aligned with.
        ``session.backbone_state.features`` may keep what the next look can use again.
        """

    def open(self, session: Session) -> StreamState:
        """Nothing heard yet."""
        return StreamState()

    def hear(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Memories of the waves; what was heard last is not heard again."""
        keys = [
            (session.audio_start, len(wave)) for session, wave in zip(sessions, waves, strict=True)
        ]
        new = [
            index for index, key in enumerate(keys) if sessions[index].backbone_state.heard != key
        ]
        if new:
            for index, memory in zip(
                new, self.listen([sessions[i] for i in new], [waves[i] for i in new]), strict=True
            ):
                state: StreamState = sessions[index].backbone_state
                state.memory, state.heard = memory, keys[index]
        return [session.backbone_state.memory for session in sessions]

    def forget(self, session: Session, cut: Cut) -> None:
        """Audio that goes takes with it what was heard; what was written is forced anew at every look."""
        if cut.frames:
            session.backbone_state.memory = session.backbone_state.heard = None
