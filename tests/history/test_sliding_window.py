"""A window of audio that contains the next chunk."""

import pytest
import torch

from tests.history.streams import FRAME, session
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Cut, SpeechChunk, StreamOutline
from zoo.history.sliding_window import SlidingWindow


def test_audio_before_the_window_is_dropped() -> None:
    """Frames of 0.1 s, chunks of 0.5 s and a window of 1.2 s: 0.7 s stay before the next chunk."""
    history, stream = SlidingWindow(seconds=1.2), session()
    kept = []
    for _ in range(4):
        stream.receive(SpeechChunk(torch.zeros(5 * FRAME)))
        kept.append(stream.kept_frames)
        stream.forget(history.trim(stream, None))
    assert kept == [5, 10, 12, 12]


def test_a_chunk_longer_than_the_window_is_received_as_a_whole() -> None:
    history, stream = SlidingWindow(seconds=0.3), session()
    stream.receive(SpeechChunk(torch.zeros(5 * FRAME)))
    assert history.trim(stream, None) == Cut(frames=5)


def test_the_longest_audio_is_the_window() -> None:
    outline = StreamOutline(duration=60 * SAMPLE_RATE, chunk=SAMPLE_RATE, frame=FRAME)
    assert SlidingWindow(seconds=12).longest_audio(outline) == 12 * SAMPLE_RATE


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ZooError, match="seconds"):
        SlidingWindow(seconds=0)
