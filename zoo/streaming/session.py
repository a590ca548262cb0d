"""Everything one live stream remembers. Modules keep no stream state; a session keeps no network and reads no clock."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from zoo.languages import Language
from zoo.streaming.text import TextStream
from zoo.types import SAMPLE_RATE, Cut, Frames, Hypothesis, Samples, Seconds, SpeechChunk, no_tokens


@dataclass(slots=True, eq=False)
class Session:
    """One stream through one system.

    audio: (n,) kept samples, those not yet forgotten. audio_start: position of ``audio[0]`` in the stream (samples).
    prefix: (kept,) ids of the written tokens that are still kept. horizon: while a boundary is flushed, the frame
    at which the source is taken to end. multiplier: base chunks that the system takes per step. segments: (begin, end)
    of the reference segments in stream samples, where they are known. backbone, policy, history, synthesizer: the
    private state of each part.
    """

    talk: str
    source: Language
    target: Language
    frame_samples: Samples
    text: TextStream
    multiplier: int = 1
    segments: tuple[tuple[Samples, Samples], ...] = ()
    audio: Tensor = field(default_factory=lambda: torch.zeros(0))
    audio_start: Samples = 0
    prefix: Tensor = field(default_factory=no_tokens)
    source_ended: bool = False
    horizon: Frames | None = None
    last_samples: Samples = 0  # size of the newest chunk
    backbone: Any = None
    policy: Any = None
    history: Any = None
    synthesizer: Any = None

    def receive(self, chunk: SpeechChunk) -> None:
        """Append newly arrived audio."""
        self.audio = torch.cat([self.audio, chunk.samples]) if self.audio.numel() else chunk.samples
        self.last_samples = chunk.samples.numel()
        self.source_ended = chunk.final

    def forget(self, cut: Cut) -> None:
        """Drop the oldest kept tokens and frames."""
        self.prefix = self.prefix[cut.tokens :]
        dropped = min(cut.frames * self.frame_samples, self.audio.numel())
        self.audio = self.audio[dropped:].clone() if dropped else self.audio
        self.audio_start += dropped
        if self.horizon is not None:
            self.horizon = max(self.horizon - cut.frames, 0)

    def look(self, audio_end: Frames | None = None) -> Tensor:
        """(n,) samples a network may see now: those before frame ``audio_end`` (None: all), never past the horizon."""
        frames = self.frames if audio_end is None else min(audio_end, self.frames)
        return self.audio[: frames * self.frame_samples]

    @property
    def kept_frames(self) -> Frames:
        """Kept source frames, a started one included."""
        return -(-self.audio.numel() // self.frame_samples)

    @property
    def frames(self) -> Frames:
        """Source frames a policy may look at: all that are kept, or those before the boundary being flushed."""
        return self.kept_frames if self.horizon is None else min(self.horizon, self.kept_frames)

    @property
    def ended(self) -> bool:
        """No more source will come before the words must be out: the stream ended or a boundary is being flushed."""
        return self.source_ended or self.horizon is not None

    @property
    def heard(self) -> Samples:
        """All samples received since the stream began."""
        return self.audio_start + self.audio.numel()

    def seconds(self, frames: Frames) -> Seconds:
        """Length of ``frames`` source frames."""
        return frames * self.frame_samples / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Write:
    """What one stream writes now, before it joins ``session.prefix``: the first ``tokens`` new ones of ``hypothesis``.

    tokens: at least 1. text: what they add to the text written so far (empty where they end within a character).
    """

    session: Session
    hypothesis: Hypothesis
    tokens: int
    text: str
