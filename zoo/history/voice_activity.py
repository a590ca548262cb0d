"""Segments between pauses, found by a voice activity detector; nothing is remembered across them.

The long-form baselines of SimulU (section 3.3) and StreamUni: Silero VAD, segments of 15 to 30 s. Knows no network but
the detector.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from zoo.errors import ZooError
from zoo.history.base import History
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Capability, Frames, Samples, Seconds

WINDOW: Samples = 512  # what Silero looks at, at 16 kHz

Voice = Callable[[Tensor], float]  # (512,) samples -> probability of speech; remembers the windows before


def silero() -> Voice:
    """Silero VAD, weights from its wheel. A detector per stream, for it remembers what it heard."""
    from silero_vad import load_silero_vad

    network = load_silero_vad(onnx=False)
    return lambda window: network(window, SAMPLE_RATE).item()


@dataclass(slots=True)
class Activity:
    """A stream's detector and the (end, probability) of each kept window; ends and ``scored`` in stream samples."""

    voice: Voice
    scored: Samples = 0
    windows: list[tuple[Samples, float]] = field(default_factory=list)


class VoiceActivity(History):
    """Close a segment at the first pause after ``min_seconds``, at the latest at ``max_seconds``.

    threshold: a window below this probability is a pause. max_unvoiced_seconds: a pause this long closes a segment in
    which nothing was said. voice: makes a stream's detector.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.RECUT})

    def __init__(
        self,
        *,
        min_seconds: Seconds = 15.0,
        max_seconds: Seconds = 30.0,
        max_unvoiced_seconds: Seconds = 20.0,
        threshold: float = 0.1,
        voice: Callable[[], Voice] = silero,
    ) -> None:
        """Raises ZooError unless 0 < min_seconds <= max_seconds."""
        if not 0 < min_seconds <= max_seconds:
            raise ZooError(f"VoiceActivity needs 0 < min_seconds <= max_seconds, not {min_seconds}, {max_seconds}.")
        self.min_samples, self.max_samples = round(min_seconds * SAMPLE_RATE), round(max_seconds * SAMPLE_RATE)
        self.max_unvoiced_samples = round(max_unvoiced_seconds * SAMPLE_RATE)
        self.threshold = threshold
        self.voice = voice

    def open(self) -> Activity:
        """A fresh detector."""
        return Activity(voice=self.voice())

    def boundary(self, session: Session) -> Frames | None:
        """The end of the first segment in the kept audio, rounded up to a frame."""
        state: Activity = session.history
        self._score(session, state)
        end = self._segment_end([(end - session.audio_start, chance) for end, chance in state.windows])
        return None if end is None else min(-(-end // session.frame_samples), session.kept_frames)

    def _score(self, session: Session, state: Activity) -> None:
        start = session.audio_start
        state.windows = [window for window in state.windows if window[0] > start]
        state.scored = max(state.scored, start)
        while state.scored + WINDOW <= session.heard:
            window = session.audio[state.scored - start :][:WINDOW]
            state.scored += WINDOW
            state.windows.append((state.scored, state.voice(window)))

    def _segment_end(self, windows: list[tuple[Samples, float]]) -> Samples | None:
        """Samples into the kept audio; ``windows`` as in the state, but counted from there."""
        spoken = False
        for index, (end, chance) in enumerate(windows):
            pause = chance < self.threshold
            spoken = spoken or not pause
            if pause and end >= (self.min_samples if spoken else self.max_unvoiced_samples):
                return end
            if end >= self.max_samples:
                return min((chance, end) for end, chance in windows[: index + 1] if end >= self.min_samples)[1]
        return None
