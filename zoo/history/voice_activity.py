"""Segments between pauses, found by a voice activity detector.

The long-form baselines of SimulU (section 3.3) and the IWSLT 2025 campaign use Silero VAD with
segments of 15 to 30 s; that of StreamUni (section 4.2, Phi-4-VAD) uses Silero VAD without further
settings. Nothing is kept from one segment to the next. By the "maximum unvoiced interval of 20 s"
in SimulU's paper, a pause ends a segment after 20 s (``pause_seconds``),
so most segments end at 30 s; configurations of the same group have 0.1 s. simulstream's wrapper of
the detector loses up to 1 s of speech at the end of a source; here it is decoded.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from math import inf, isinf
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor

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
from zoo.history.base import History
from zoo.history.restart import Auto, Restart, decide_restart
from zoo.streaming.session import Session

WINDOW: Samples = 512  # input size of Silero VAD at 16 kHz
VOICED = 0.5  # probability of speech above which Silero VAD calls a window speech
QUIET = 0.1  # probability of speech below which a window has none for sure
RENEWED = 16  # windows without speech (0.5 s) after which the state of Silero VAD begins anew
UNANSWERED: Seconds = 10.0  # of speech since the last output, from which on it is reported

# Maps (512,) samples to a probability of speech; keeps a state over consecutive windows.
SpeechDetector = Callable[[Tensor], float]


class Silero:
    """Silero VAD, whose state begins anew in pauses.

    After a change of the speaker, the recurrent state of the network may find no speech in a voice
    that a new state recognises. So after each ``RENEWED`` windows without speech in a row, the
    state begins anew, with these windows: a new state without any finds speech in noise.

    Args:
        network: Silero VAD; its state changes.
    """

    def __init__(self, network: Any) -> None:
        self._network = network
        self._quiet: list[Tensor] = []  # newest windows, all without speech

    def __call__(self, window: Tensor) -> float:
        """Return the probability of speech in (512,) samples."""
        speech: float = self._network(window, SAMPLE_RATE).item()
        if speech >= QUIET:
            self._quiet.clear()
            return speech
        self._quiet.append(window)
        if len(self._quiet) == RENEWED:
            self._network.reset_states()
            for quiet in self._quiet:
                self._network(quiet, SAMPLE_RATE)
            self._quiet.clear()
        return speech


def silero() -> SpeechDetector:
    """Return a detector of Silero VAD; each stream needs a detector of its own.

    To load the network and to compile it at its first windows takes 0.1 s, a copy 0.01 s.
    """
    return Silero(copy.deepcopy(_silero_network()))


@cache
def _silero_network() -> Any:
    """Load Silero VAD from its wheel; only copies are run."""
    # Importing silero_vad sets the number of threads of the whole process to one.
    threads = torch.get_num_threads()
    from silero_vad import load_silero_vad

    torch.set_num_threads(threads)
    return load_silero_vad(onnx=False)


@dataclass(slots=True)
class DetectorState:
    """Voice activity of one stream.

    Attributes:
        detector: The detector of this stream.
        scored: Position up to which audio has been scored, in samples of the stream.
        windows: (end in samples of the stream, probability of speech) of each kept window.
        in_segment: The kept audio begins with a segment.
        unanswered: Speech received since the last output, in samples.
    """

    detector: SpeechDetector
    scored: Samples = 0
    windows: list[tuple[Samples, float]] = field(default_factory=list)
    in_segment: bool = False
    unanswered: Samples = 0


class VoiceActivity(History):
    """End a segment at the first pause after ``min_seconds`` and at ``max_seconds`` at the latest.

    A segment that reaches ``max_seconds`` ends at the quietest window of the newest chunk. An
    earlier end is not possible, because words after it may already be written.

    Args:
        min_seconds: Minimum duration of a segment that ends at a pause.
        max_seconds: Maximum duration of a segment. None: no maximum.
        pause_seconds: Duration of consecutive unvoiced windows that counts as a pause.
        pad_seconds: Silence to keep before a segment; earlier silence is dropped untranslated.
        threshold: A window below this probability of speech is unvoiced.
        detector: Creates the detector of a stream.
        restart: When all text is dropped because the model ends or repeats its text while someone
            speaks; needs an alignment. null (the papers): never. auto: as ``Restart`` if the
            backbone needs it (Whisper), otherwise never.

    Raises:
        ZooError: Unless 0 < min_seconds <= max_seconds, 0 < pause_seconds and 0 <= pad_seconds.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.AUDIO_TRIMMING})
    reads_unwritten = False

    def __init__(
        self,
        *,
        min_seconds: Seconds = 15.0,
        max_seconds: Seconds | None = 30.0,
        pause_seconds: Seconds = 0.1,
        pad_seconds: Seconds = 0.1,
        threshold: float = 0.1,
        detector: Callable[[], SpeechDetector] = silero,
        restart: Restart | Auto | None = "auto",
    ) -> None:
        longest = inf if max_seconds is None else max_seconds
        if not 0 < min_seconds <= longest:
            raise ZooError(
                f"VoiceActivity needs 0 < min_seconds <= max_seconds, not {min_seconds}, "
                f"{max_seconds}."
            )
        check_numbers("VoiceActivity", above=0, pause_seconds=pause_seconds)
        check_numbers("VoiceActivity", least=0, pad_seconds=pad_seconds)
        self.min_samples = round(min_seconds * SAMPLE_RATE)
        self.max_samples = inf if isinf(longest) else round(longest * SAMPLE_RATE)
        self.pause_samples = round(pause_seconds * SAMPLE_RATE)
        self.pad_samples = round(pad_seconds * SAMPLE_RATE)
        self.threshold = threshold
        self.detector = detector
        if isinstance(restart, str):
            check_choice("restart of VoiceActivity", restart, get_args(Auto))
        self.restart = restart
        self._set_needs()

    def guard(self, *, by_default: bool) -> None:
        """Turn ``auto`` into ``Restart``, or into none; see ``History``."""
        self.restart = decide_restart(self.restart, by_default=by_default)
        self._set_needs()

    def _set_needs(self) -> None:
        """Need an alignment for a restart; ``bind`` reads the needs of the instance."""
        if isinstance(self.restart, Restart):
            self.needs = VoiceActivity.needs | {Capability.ALIGNMENT}  # type: ignore[misc]

    def restart_cut(self, session: Session, hypothesis: Hypothesis) -> Cut | None:
        """Drop all text if the model has lost the speech after it; see ``History``."""
        if not isinstance(self.restart, Restart):
            return None
        return self.restart.cut(session, hypothesis, partial(self.speech_after, session))

    def open(self) -> DetectorState:
        """Return the state of a new stream with its own detector."""
        return DetectorState(detector=self.detector())

    def onset(self, session: Session) -> Frames | None:
        """Return the first voiced window less the padding, or 0 within a segment."""
        state: DetectorState = session.history_state
        self._score(session, state)
        if state.in_segment:
            return 0

        voiced = next(
            (end - WINDOW for end, speech in state.windows if speech >= self.threshold), None
        )
        if voiced is None:
            return None
        state.in_segment = True
        return max(voiced - self.pad_samples - session.audio_start, 0) // session.frame_samples

    def boundary(self, session: Session) -> Frames | None:
        """Return the end of the first segment in the kept audio, rounded up to a frame."""
        state: DetectorState = session.history_state
        self._score(session, state)

        translated = max(session.audio.numel() - session.last_chunk_samples, 0)
        windows = [(end - session.audio_start, speech) for end, speech in state.windows]
        end = self._segment_end(windows, translated)
        if end is None:
            return None
        state.in_segment = False
        return min(-(-end // session.frame_samples), session.kept_frames)

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Between segments, drop all audio except the padding of the next segment."""
        state: DetectorState = session.history_state
        if state.in_segment:
            return Cut()
        # An incomplete last window has not been scored yet and may be voiced.
        silent = session.audio.numel() - self.pad_samples - WINDOW
        return Cut(frames=max(silent, 0) // session.frame_samples)

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the longest segment, whose end is rounded up to a frame; see ``History``."""
        if isinf(self.max_samples):
            return outline.duration
        return -(-int(self.max_samples) // outline.frame) * outline.frame

    def speech_after(self, session: Session, begin: Samples) -> Seconds:
        """Return the duration of visible speech after a kept sample.

        Args:
            session: The stream.
            begin: Kept sample.
        """
        state: DetectorState = session.history_state  # ``onset`` has scored this step's windows
        first = session.audio_start + begin
        last = session.audio_start + session.visible_audio().numel()
        voiced = [end for end, speech in state.windows if speech >= VOICED and first < end <= last]
        return len(voiced) * WINDOW / SAMPLE_RATE

    def speech_without_output(self, session: Session, *, has_output: bool) -> Seconds:
        """Return the duration of speech since the last output, from 10 s on; see ``History``."""
        state: DetectorState = session.history_state
        speech = 0.0 if has_output else state.unanswered / SAMPLE_RATE
        if not has_output and speech < UNANSWERED:
            return 0.0
        state.unanswered = 0
        return speech

    def _score(self, session: Session, state: DetectorState) -> None:
        """Score the new complete windows and drop those whose audio has been dropped."""
        start = session.audio_start
        state.windows = [window for window in state.windows if window[0] > start]
        state.scored = max(state.scored, start)
        while state.scored + WINDOW <= session.received_samples:
            window = session.audio[state.scored - start :][:WINDOW]
            state.scored += WINDOW
            speech = state.detector(window)
            state.windows.append((state.scored, speech))
            state.unanswered += WINDOW if speech >= VOICED else 0

    def _segment_end(
        self, windows: list[tuple[Samples, float]], translated: Samples
    ) -> Samples | None:
        """Find the end of the segment at the start of the kept audio.

        Args:
            windows: (end in samples of the kept audio, probability of speech) of each window.
            translated: Samples from which the policy has already decoded.

        Returns:
            End of the segment in samples of the kept audio. None: the segment has not ended.
        """
        unvoiced: Samples = 0
        for index, (end, speech) in enumerate(windows):
            unvoiced = unvoiced + WINDOW if speech < self.threshold else 0
            if unvoiced >= self.pause_samples and end >= self.min_samples:
                return end

            if end > self.max_samples - WINDOW:  # the next window would exceed the maximum
                candidates = [
                    (speech, end)
                    for end, speech in windows[: index + 1]
                    if end >= self.min_samples and end > translated
                ]
                return min(candidates)[1] if candidates else end
        return None
