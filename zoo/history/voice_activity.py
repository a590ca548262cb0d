"""Segments between pauses, found by a voice activity detector; nothing is remembered across them.

The long-form baselines of SimulU (section 3.3), the IWSLT 2025 campaign and StreamUni: Silero VAD, segments of 15 to
30 s. Knows no network but the detector.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.history.base import History
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Capability, Cut, Frames, Hypothesis, Samples, Seconds

WINDOW: Samples = 512  # what Silero looks at, at 16 kHz

Voice = Callable[
    [Tensor], float
]  # (512,) samples -> probability of speech; remembers the windows before


def silero() -> Voice:
    """Silero VAD, weights from its wheel. A detector per stream, for it remembers what it heard."""
    threads = torch.get_num_threads()
    from silero_vad import load_silero_vad

    torch.set_num_threads(threads)  # importing silero_vad sets one thread for the whole process
    network = load_silero_vad(onnx=False)
    return lambda window: network(window, SAMPLE_RATE).item()


@dataclass(slots=True)
class Activity:
    """A stream's detector and the (end, probability) of each kept window; ends and ``scored`` in stream samples.

    begun: the kept audio begins with a segment.
    """

    voice: Voice
    scored: Samples = 0
    windows: list[tuple[Samples, float]] = field(default_factory=list)
    begun: bool = False


class VoiceActivity(History):
    """Close a segment at the first pause after ``min_seconds``, at the latest at ``max_seconds``.

    threshold: a window below this probability is unvoiced. pause_seconds: so much of it in a row is a pause.
    pad_seconds: what is heard of the silence before a segment; the rest is forgotten and nothing is asked about it.
    A segment that reaches ``max_seconds`` ends at the quietest window of the newest chunk: words from beyond an earlier
    one may be written already. voice: makes a stream's detector.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.AUDIO_TRIMMING})

    def __init__(
        self,
        *,
        min_seconds: Seconds = 15.0,
        max_seconds: Seconds = 30.0,
        pause_seconds: Seconds = 0.1,
        pad_seconds: Seconds = 0.1,
        threshold: float = 0.1,
        voice: Callable[[], Voice] = silero,
    ) -> None:
        """Raises ZooError unless 0 < min_seconds <= max_seconds, 0 < pause_seconds and 0 <= pad_seconds."""
        if not 0 < min_seconds <= max_seconds:
            raise ZooError(
                f"VoiceActivity needs 0 < min_seconds <= max_seconds, not {min_seconds}, {max_seconds}."
            )
        if pause_seconds <= 0 or pad_seconds < 0:
            raise ZooError(
                f"VoiceActivity needs pause_seconds above 0 and pad_seconds of at least 0, not {pause_seconds}, "
                f"{pad_seconds}."
            )
        self.min_samples, self.max_samples = (
            round(min_seconds * SAMPLE_RATE),
            round(max_seconds * SAMPLE_RATE),
        )
        self.pause_samples, self.pad_samples = (
            round(pause_seconds * SAMPLE_RATE),
            round(pad_seconds * SAMPLE_RATE),
        )
        self.threshold = threshold
        self.voice = voice

    def open(self) -> Activity:
        """A fresh detector."""
        return Activity(voice=self.voice())

    def onset(self, session: Session) -> Frames | None:
        """The first voiced window, less the padding; within a segment 0."""
        state: Activity = session.history_state
        self._score(session, state)
        if state.begun:
            return 0
        voiced = next(
            (end - WINDOW for end, chance in state.windows if chance >= self.threshold), None
        )
        if voiced is None:
            return None
        state.begun = True
        return max(voiced - self.pad_samples - session.audio_start, 0) // session.frame_samples

    def boundary(self, session: Session) -> Frames | None:
        """The end of the first segment in the kept audio, rounded up to a frame."""
        state: Activity = session.history_state
        self._score(session, state)
        looked = max(session.audio.numel() - session.last_chunk_samples, 0)
        end = self._segment_end(
            [(end - session.audio_start, chance) for end, chance in state.windows], looked
        )
        if end is None:
            return None
        state.begun = False
        return min(-(-end // session.frame_samples), session.kept_frames)

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Between segments, forget all but what may be the padding of the next one."""
        state: Activity = session.history_state
        if state.begun:
            return Cut()
        silent = (
            session.audio.numel() - self.pad_samples - WINDOW
        )  # the last window may not have been scored yet
        return Cut(frames=max(silent, 0) // session.frame_samples)

    def _score(self, session: Session, state: Activity) -> None:
        start = session.audio_start
        state.windows = [window for window in state.windows if window[0] > start]
        state.scored = max(state.scored, start)
        while state.scored + WINDOW <= session.received_samples:
            window = session.audio[state.scored - start :][:WINDOW]
            state.scored += WINDOW
            state.windows.append((state.scored, state.voice(window)))

    def _segment_end(self, windows: list[tuple[Samples, float]], looked: Samples) -> Samples | None:
        """Samples into the kept audio; ``windows`` as in the state, but counted from there.

        looked: samples that policies have looked at before.
        """
        unvoiced: Samples = 0
        for index, (end, chance) in enumerate(windows):
            unvoiced = unvoiced + WINDOW if chance < self.threshold else 0
            if unvoiced >= self.pause_samples and end >= self.min_samples:
                return end
            if end > self.max_samples - WINDOW:  # with the next window it would be too long
                new = [
                    (chance, end)
                    for end, chance in windows[: index + 1]
                    if end >= self.min_samples and end > looked
                ]
                return min(new)[1] if new else end
        return None
