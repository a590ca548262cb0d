"""The newest seconds of audio, without any text: the window of re-translation.

Sen et al. (2022), "Simultaneous Translation for Unsegmented Input: A Sliding Window Approach".
"""

from dataclasses import dataclass
from typing import ClassVar

from zoo.base.errors import check_numbers
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Cut,
    Hypothesis,
    Samples,
    Seconds,
    StreamOutline,
)
from zoo.history.base import History, frames_beyond, longest_within
from zoo.streaming.session import Session


@dataclass(kw_only=True, eq=False)
class SlidingWindow(History):
    """Keep the newest audio and all text.

    A policy that revises its output keeps no text; with another policy, the text of dropped audio
    stays, which few models can continue.

    Args:
        seconds: Seconds of audio that a translation receives at most, the newest chunk included;
            a longer chunk is received as a whole.

    Raises:
        ZooError: ``seconds`` is not above 0.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.AUDIO_TRIMMING})
    reads_unwritten = False

    seconds: Seconds = 12.0

    def __post_init__(self) -> None:
        check_numbers("SlidingWindow", above=0, seconds=self.seconds)

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Drop the audio before the window; see ``History``."""
        next_chunk = session.last_chunk_samples / SAMPLE_RATE  # as long as the newest one
        return Cut(frames=frames_beyond(max(self.seconds - next_chunk, 0), session))

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the window, or a longer chunk; see ``History``."""
        chunk = outline.chunk / SAMPLE_RATE
        return longest_within(max(self.seconds - chunk, 0), outline)
