"""The state of a stream: received, visible and dropped audio."""

import pytest
import torch

from tests.fixtures.streams import new_session
from zoo.base.types import Cut, SpeechChunk
from zoo.streaming.session import Session


def session(samples: int = 0, frame_samples: int = 4) -> Session:
    """A stream that has received the samples 0, 1, 2, ... in one chunk."""
    audio = torch.arange(samples, dtype=torch.float32)
    return new_session(audio=audio, frame_samples=frame_samples)


def test_chunks_add_up_and_the_last_one_ends_the_source() -> None:
    stream = session(6)
    assert (stream.received_samples, stream.kept_frames, stream.must_flush) == (6, 2, False)
    stream.receive(SpeechChunk(torch.zeros(3), final=True))
    assert (stream.received_samples, stream.kept_frames, stream.must_flush) == (9, 3, True)


def test_forgetting_moves_the_start_and_drops_tokens() -> None:
    stream = session(10)
    stream.prefix_ids = torch.tensor([5, 6, 7])
    stream.forget(Cut(tokens=1, frames=2))
    assert (stream.audio.tolist(), stream.audio_start, stream.received_samples) == (
        [8.0, 9.0],
        8,
        10,
    )
    assert stream.prefix_ids.tolist() == [6, 7]


def test_a_started_frame_can_be_forgotten_and_no_more_than_is_kept() -> None:
    stream = session(10)
    stream.forget(Cut(frames=3))
    assert (stream.audio.numel(), stream.audio_start, stream.kept_frames) == (0, 10, 0)
    stream.forget(Cut(frames=3))
    assert stream.audio_start == 10


def test_forgotten_audio_is_released() -> None:
    stream = session(1000)
    stream.forget(Cut(frames=249))
    assert stream.audio.untyped_storage().nbytes() == 4 * 4


@pytest.mark.parametrize(
    ("horizon", "audio_end", "samples"), [(None, None, 10), (None, 1, 4), (2, None, 8), (2, 9, 8)]
)
def test_a_hypothesis_uses_audio_up_to_the_horizon(
    horizon: int | None, audio_end: int | None, samples: int
) -> None:
    stream = session(10)
    stream.segment_end = horizon
    assert stream.visible_audio(audio_end).numel() == samples


def test_a_horizon_ends_the_source_and_moves_with_what_is_forgotten() -> None:
    stream = session(20)
    stream.segment_end = 3
    assert (stream.must_flush, stream.visible_frames) == (True, 3)
    stream.forget(Cut(frames=2))
    assert (stream.segment_end, stream.visible_frames, stream.kept_frames) == (1, 1, 3)


def test_sessions_compare_by_identity() -> None:
    first, second = session(5), session(5)
    assert [first, second].index(second) == 1
