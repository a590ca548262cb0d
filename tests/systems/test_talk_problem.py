"""Whether a backbone accepts all audio that policy and history may give it, before streaming."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.contract.scripted import Scripted
from tests.fixtures.streams import new_system
from zoo.base.talks import Segment, Talk
from zoo.base.types import SAMPLE_RATE, Capability
from zoo.history.base import History
from zoo.history.keep_all import KeepAll
from zoo.history.recent_words import RecentWords
from zoo.history.reference_segments import ReferenceSegments
from zoo.history.voice_activity import VoiceActivity
from zoo.policies.base import Policy
from zoo.policies.read_all import ReadAll
from zoo.policies.transcript_wait_k import TranscriptWaitK


class Short(Scripted):
    """Accepts 30 s, in frames of 20 ms, as Whisper."""

    exposes = frozenset(Capability)
    frame_samples = 320
    longest_input = 30 * SAMPLE_RATE


def problem(
    history: History,
    policy: Policy | None = None,
    *,
    chunk: float = 1.0,
    seconds: float = 100.0,
    segments: Sequence[tuple[float, float]] = (),
    **options: Any,
) -> str | None:
    """The problem of one talk."""
    system = new_system(Short(), policy or ReadAll(), history, chunk_seconds=chunk, name="short")
    parts = tuple(Segment(begin, end - begin, "") for begin, end in segments)
    return system.talk_problem([Talk("talk", None, seconds, "en", parts)], **options)


def test_without_a_limit_there_is_no_problem() -> None:
    assert Scripted().longest_input is None


@pytest.mark.parametrize(
    ("history", "chunk", "fits"),
    [
        (RecentWords(words=10), 1.2, True),  # 28.8 s are kept
        (RecentWords(words=10), 1.22, False),
        (VoiceActivity(), 5.0, True),
        (VoiceActivity(max_seconds=30.01), 1.0, False),
        (KeepAll(), 1.0, False),
    ],
)
def test_a_history_leaves_room_for_one_chunk(history: History, chunk: float, fits: bool) -> None:
    found = problem(history, chunk=chunk)
    assert (found is None) == fits
    if found:
        assert "Short encodes at most 30 s at once, but system 'short' may keep" in found


def test_a_short_talk_fits_always() -> None:
    assert problem(KeepAll(), seconds=30) is None


def test_a_reference_segment_begins_and_ends_at_frames() -> None:
    segments = [(1.0, 31.0), (40.0, 50.0)]
    assert problem(ReferenceSegments(), segments=segments) is None
    off_the_grid = [(1.01, 31.01)]  # frames 50 to 1550 are visible
    assert "may keep 30.02 s" in str(problem(ReferenceSegments(), segments=off_the_grid))


def test_offline_decoding_receives_a_talk_as_one_chunk() -> None:
    history = RecentWords(words=10)
    assert problem(history, seconds=31) is None
    assert "may keep 31 s" in str(problem(history, seconds=31, whole=True))
    assert problem(VoiceActivity(), seconds=31, whole=True) is None


def test_truncation_bounds_a_segment() -> None:
    assert problem(KeepAll(), TranscriptWaitK(k=1, max_seconds=29)) is None
    assert "may keep 31 s" in str(problem(KeepAll(), TranscriptWaitK(k=1)))
    assert problem(KeepAll(), TranscriptWaitK(k=1, max_seconds=29, truncate=False))
