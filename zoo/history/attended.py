"""History selection of StreamAtt: select text first, then the audio that this text attends to.

Papi et al. (2024), "StreamAtt: Direct Streaming Speech-to-Text Translation with Attention-based
Audio History Selection".
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import ClassVar, Literal, get_args

from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Cut,
    Frames,
    Hypothesis,
    Samples,
    Seconds,
    StreamOutline,
)
from zoo.history.base import History, frames_beyond, longest_within
from zoo.history.restart import Auto, Restart, decide_restart
from zoo.history.speech import Speech
from zoo.history.voice_activity import DetectorState, VoiceActivity
from zoo.streaming.session import Session

CutMoment = Literal["with_text", "always"]
AlignedRows = Literal["kept", "hypothesis"]
Detector = Literal["silero"]


@dataclass(kw_only=True, eq=False)
class AttendedHistory(History, ABC):
    """Keep the newest text and the audio from the first frame to which it is aligned.

    A subclass selects the text. Of simulstream 1.0.0 it does not reproduce that audio is cut at an
    eighth of the computed frame, that text beyond ``max_tokens`` is dropped without its audio, and
    that the last token of a hypothesis is ignored even if it is a word.

    Args:
        cut: When audio is dropped: only ``with_text`` (FBK-fairseq, simulstream), or ``always``,
            after every translation (the baseline of InfiniSST).
        rows: Tokens whose aligned frames are kept: the ``kept`` tokens, or all tokens of the
            ``hypothesis`` including those not yet written (FBK-fairseq).
        min_seconds: Seconds of audio that a cut leaves at least (StreamAtt+: 10).
        max_seconds: Seconds of audio to keep at most, whatever the text. None: no maximum.
        max_tokens: Number of tokens to keep at most, cut at a word boundary. None: no maximum.
        restart: When all text is dropped because the model ends or repeats its text while someone
            speaks (ours). null (the papers): never. auto: as ``Restart`` if the backbone needs it
            (Whisper), otherwise never.
        speech: Where a voice activity detector divides the source (ours). silero: as ``Speech``.
            null (the papers): nowhere. auto: as ``restart``.

    Raises:
        ZooError: A value is out of range or not one of the choices.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.ALIGNMENT, Capability.AUDIO_TRIMMING}
    )

    selects_text: ClassVar[bool] = True
    # A selection that keeps at least one written token reads the rows of kept tokens only.
    reads_unwritten: bool = field(default=False, init=False)
    _segments: VoiceActivity | None = field(default=None, init=False, repr=False)

    cut: CutMoment = "with_text"
    rows: AlignedRows = "kept"
    min_seconds: Seconds = 0.0
    max_seconds: Seconds | None = 28.8
    max_tokens: int | None = 128
    restart: Restart | Auto | None = "auto"
    speech: Speech | Detector | Auto | None = "auto"

    def __post_init__(self) -> None:
        name = type(self).__name__
        longest = inf if self.max_seconds is None else self.max_seconds
        if not 0 <= self.min_seconds < longest:
            raise ZooError(
                f"{name} needs 0 <= min_seconds < max_seconds, not {self.min_seconds}, "
                f"{self.max_seconds}."
            )
        check_numbers(name, least=1, max_tokens=self.max_tokens)
        check_choice(f"cut of {name}", self.cut, get_args(CutMoment))
        check_choice(f"rows of {name}", self.rows, get_args(AlignedRows))
        self.reads_unwritten = self.rows == "hypothesis"
        if isinstance(self.restart, str):
            check_choice(f"restart of {name}", self.restart, get_args(Auto))
        if isinstance(self.speech, str):
            check_choice(f"speech of {name}", self.speech, (*get_args(Detector), *get_args(Auto)))
        self._divide()

    def guard(self, *, by_default: bool) -> None:
        """Turn ``auto`` into ``Restart`` and ``Speech``, or into neither; see ``History``."""
        self.restart = decide_restart(self.restart, by_default=by_default)
        if self.speech == "auto":
            self.speech = Speech() if by_default else None
        self._divide()

    def _divide(self) -> None:
        """Create the history of the stretches of speech, unless nothing divides the source."""
        speech = Speech() if self.speech == "silero" else self.speech
        self._segments = speech.segments() if isinstance(speech, Speech) else None

    def open(self) -> DetectorState | None:
        """Return the state of the detector of speech; see ``History``."""
        return None if self._segments is None else self._segments.open()

    def onset(self, session: Session) -> Frames | None:
        """Return the start of speech; see ``History``."""
        return 0 if self._segments is None else self._segments.onset(session)

    def boundary(self, session: Session) -> Frames | None:
        """Return the end of a stretch of speech; see ``History``."""
        return None if self._segments is None else self._segments.boundary(session)

    def restart_cut(self, session: Session, hypothesis: Hypothesis) -> Cut | None:
        """Drop all text if the model has lost the speech after it; see ``History``."""
        if not isinstance(self.restart, Restart):
            return None
        speech_after = None
        if self._segments is not None:
            speech_after = partial(self._segments.speech_after, session)
        return self.restart.cut(session, hypothesis, speech_after)

    def speech_without_output(self, session: Session, *, has_output: bool) -> Seconds:
        """Return the duration of speech since the last output; see ``History``."""
        if self._segments is None:
            return 0.0
        return self._segments.speech_without_output(session, has_output=has_output)

    @abstractmethod
    def first_kept(self, hypothesis: Hypothesis, num_written: int) -> int:
        """Select the text to keep.

        Args:
            hypothesis: The last translation; its rows begin with the written tokens.
            num_written: Number of written tokens.

        Returns:
            Index of the first written token to keep. ``num_written`` itself: keep none; a subclass
            that may do so sets ``reads_unwritten``.
        """

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Select text and audio, then apply the cap on audio; see ``History``."""
        if self._segments is not None and not session.history_state.in_segment:
            return self._segments.trim(session, hypothesis)
        cut = Cut() if hypothesis is None else self._select(session, hypothesis)
        surplus = frames_beyond(self.max_seconds, session)
        return Cut(tokens=cut.tokens, frames=max(cut.frames, surplus))

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the cap on audio plus one chunk; see ``History``."""
        return longest_within(self.max_seconds, outline)

    def _select(self, session: Session, hypothesis: Hypothesis) -> Cut:
        """Apply the selection of text, the selection of audio and the minimum of audio."""
        num_written = session.prefix_ids.numel()
        first = self._cap_tokens(hypothesis, self.first_kept(hypothesis, num_written), num_written)
        if num_written == 0 or (first == 0 and self.cut == "with_text"):
            return Cut()

        min_frames = -(-round(self.min_seconds * SAMPLE_RATE) // session.frame_samples)
        frames = self._first_frame(hypothesis, first, num_written)
        frames = min(frames, session.kept_frames - min_frames)
        return Cut(tokens=first, frames=max(frames, 0))

    def _cap_tokens(self, hypothesis: Hypothesis, first: int, num_written: int) -> int:
        """Return ``first``, or a later word start if more than ``max_tokens`` would be kept."""
        if self.max_tokens is None or first >= (earliest := num_written - self.max_tokens):
            return first
        word_starts = hypothesis.word_starts[earliest:num_written].nonzero()
        return earliest + int(word_starts[0]) if word_starts.numel() else earliest

    def _first_frame(self, hypothesis: Hypothesis, first: int, num_written: int) -> Frames:
        """Select the audio: the first frame to which a kept token is aligned.

        Without any such token, only translated audio is dropped: up to the last frame that the
        written text attends to.
        """
        attended = hypothesis.attended_frames
        kept_frames = attended[first:] if self.rows == "hypothesis" else attended[first:num_written]
        if kept_frames.numel():
            return int(kept_frames.min())
        return int(attended[:num_written].max()) + 1
