"""The contract of playback that catches up: new speech is shortened while it would be late."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from zoo.base.errors import check_numbers
from zoo.base.types import SAMPLE_RATE, Samples, Seconds


@dataclass(slots=True, eq=False)
class PlaybackState:
    """Playback of one stream on the clock of its source.

    Attributes:
        received: Samples of source received.
        end: When all speech so far has been played, in samples since the stream began.
    """

    received: Samples = 0
    end: Samples = 0


class Playback(ABC):
    """Shortens new target speech as far as earlier speech is still to be played.

    Speech is played in a queue (``zoo/streaming/playback.py``), so speech that is longer than its
    source falls behind for the rest of a talk. What has been emitted cannot be changed, and what
    follows is unknown: the decision about a piece depends only on how far playback is behind when
    the piece is emitted. Time is that of the source, for systems read no clock.

    Args:
        behind_seconds: How far playback may be behind before speech is shortened.

    Raises:
        ZooError: ``behind_seconds`` is negative.
    """

    def __init__(self, *, behind_seconds: Seconds) -> None:
        check_numbers(type(self).__name__, least=0, behind_seconds=behind_seconds)
        self.behind_seconds = behind_seconds

    def receive(self, state: PlaybackState, samples: Samples) -> None:
        """Advance the clock of a stream by newly received source."""
        state.received += samples

    def play(self, state: PlaybackState, speech: Tensor) -> Tensor:
        """Return new speech (n,) as it is played, and queue it."""
        behind = max(state.end - state.received, 0)
        excess = behind - round(self.behind_seconds * SAMPLE_RATE)
        if excess > 0 and speech.numel():
            speech = self.shorten(speech, excess)
        state.end = max(state.end, state.received) + speech.numel()
        return speech

    @abstractmethod
    def shorten(self, speech: Tensor, samples: Samples) -> Tensor:
        """Return the speech with up to ``samples`` samples less.

        Args:
            speech: (n,) float32 at 16 kHz, n > 0.
            samples: Number of samples by which playback is too late, at least 1.
        """
