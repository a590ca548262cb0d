"""The state of one live stream.

Modules keep no stream state and a session keeps no network, so one system serves many streams.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from zoo.base.languages import Language
from zoo.base.types import (
    NO_CONTEXT,
    SAMPLE_RATE,
    Context,
    Cut,
    Frames,
    Hypothesis,
    Samples,
    Seconds,
    SpeechChunk,
    StreamEvent,
)
from zoo.streaming.text import TextStream


def empty_token_ids() -> Tensor:
    """Return an empty (0,) int64 tensor of token ids."""
    return torch.empty(0, dtype=torch.long)


@dataclass(slots=True, eq=False)
class Session:
    """One stream through one system.

    "Kept" audio and tokens are those that no history has dropped yet.

    Attributes:
        talk: Name of the talk.
        source_language: Language of the source speech.
        target_language: Language of the translation.
        frame_samples: Samples per source frame of the backbone.
        text_stream: Converts written token ids to text.
        latency_multiplier: Number of base chunks that the system receives per step.
        longest_input: Longest audio that the backbone accepts at once, in samples. None: any.
        segments: (begin, end) of the reference segments in samples of the stream, if known.
        context: What the prompts of the stream contain besides its speech.
        audio: (n,) kept samples.
        audio_start: Position of ``audio[0]`` in the stream, in samples.
        prefix_ids: (kept,) written token ids that are still kept.
        source_ended: Whether the last chunk of the source has been received.
        segment_end: While a finished segment is flushed, the kept frame at which it ends; later
            audio is not visible. None otherwise.
        last_chunk_samples: Size of the newest chunk in samples.
        events: What happened in the current step besides output.
        backbone_state: State of the backbone for this stream.
        policy_state: State of the policy for this stream.
        history_state: State of the history for this stream.
        synthesizer_state: State of the synthesizer for this stream.
        playback_state: State of the playback for this stream.
    """

    talk: str
    source_language: Language
    target_language: Language
    frame_samples: Samples
    text_stream: TextStream
    latency_multiplier: int = 1
    longest_input: Samples | None = None
    segments: tuple[tuple[Samples, Samples], ...] = ()
    context: Context = NO_CONTEXT
    audio: Tensor = field(default_factory=lambda: torch.zeros(0))
    audio_start: Samples = 0
    prefix_ids: Tensor = field(default_factory=empty_token_ids)
    source_ended: bool = False
    segment_end: Frames | None = None
    last_chunk_samples: Samples = 0
    events: list[StreamEvent] = field(default_factory=list)
    backbone_state: Any = None
    policy_state: Any = None
    history_state: Any = None
    synthesizer_state: Any = None
    playback_state: Any = None

    def receive(self, chunk: SpeechChunk) -> None:
        """Append newly received audio."""
        self.audio = torch.cat([self.audio, chunk.samples]) if self.audio.numel() else chunk.samples
        self.last_chunk_samples = chunk.samples.numel()
        self.source_ended = chunk.final

    def forget(self, cut: Cut) -> None:
        """Drop the oldest kept tokens and frames."""
        self.prefix_ids = self.prefix_ids[cut.tokens :]

        dropped = min(cut.frames * self.frame_samples, self.audio.numel())
        self.audio = self.audio[dropped:].clone() if dropped else self.audio
        self.audio_start += dropped

        if self.segment_end is not None:
            self.segment_end = max(self.segment_end - cut.frames, 0)

    def visible_audio(self, audio_end: Frames | None = None) -> Tensor:
        """Return the kept samples that a network may use now.

        Args:
            audio_end: Kept frame at which the audio ends. None: no further restriction.

        Returns:
            (n,) samples, never beyond ``segment_end``.
        """
        frames = self.visible_frames
        if audio_end is not None:
            frames = min(audio_end, frames)
        return self.audio[: frames * self.frame_samples]

    @property
    def kept_frames(self) -> Frames:
        """Number of kept source frames, including an incomplete last one."""
        return -(-self.audio.numel() // self.frame_samples)  # rounded up

    @property
    def visible_frames(self) -> Frames:
        """Number of kept source frames before ``segment_end``."""
        if self.segment_end is None:
            return self.kept_frames
        return min(self.segment_end, self.kept_frames)

    @property
    def must_flush(self) -> bool:
        """Whether all visible audio must be translated now.

        True at the end of the source and while a finished segment is flushed.
        """
        return self.source_ended or self.segment_end is not None

    @property
    def received_samples(self) -> Samples:
        """Number of samples received since the stream began."""
        return self.audio_start + self.audio.numel()

    def frames_to_seconds(self, frames: Frames) -> Seconds:
        """Return the duration of ``frames`` source frames in seconds."""
        return frames * self.frame_samples / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A request to a synthesizer: synthesise the tokens that a stream writes in this step.

    Attributes:
        session: The stream; ``prefix_ids`` does not contain the new tokens yet.
        hypothesis: The hypothesis whose first tokens are written.
        tokens: Number of new tokens of the hypothesis to speak, at least 1.
        text: Text that the tokens add to the translation. Empty if they end within a character.
        dropped: Number of kept tokens, from the first on, that are no context of the speech.
    """

    session: Session
    hypothesis: Hypothesis
    tokens: int
    text: str
    dropped: int = 0
