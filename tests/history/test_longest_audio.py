"""The audio that a stream keeps at most, by its history or policy, and the default limits."""

from math import inf

import pytest

from zoo.base.types import SAMPLE_RATE, Samples, StreamOutline
from zoo.history.base import History
from zoo.history.fixed_audio import FixedAudio
from zoo.history.keep_all import KeepAll
from zoo.history.punctuation import Punctuation
from zoo.history.recent_words import RecentWords
from zoo.history.reference_segments import ReferenceSegments
from zoo.history.voice_activity import VoiceActivity
from zoo.policies.base import Policy
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.policies.wait_k import WaitK

OUTLINE = StreamOutline(
    duration=100_000, chunk=500, frame=300, segments=((0, 1000), (1450, 2500), (2500, 2600))
)


@pytest.mark.parametrize(
    ("part", "longest"),
    [
        # whole frames within 1600 samples, and a chunk
        (RecentWords(words=1, max_seconds=0.1), 5 * 300 + 500),
        (RecentWords(words=1, max_seconds=None), 100_000),
        (Punctuation(max_seconds=inf), 100_000),
        (FixedAudio(max_seconds=None), 100_000),
        (VoiceActivity(max_seconds=None), 100_000),
        (VoiceActivity(min_seconds=0.05, max_seconds=0.1), 6 * 300),  # rounded up to a frame
        (ReferenceSegments(), (9 - 4) * 300),  # the second, both ends rounded to frames
        (TranscriptWaitK(k=1, max_seconds=0.1), 1600 + 500),
        (TranscriptWaitK(k=1, truncate=False), 100_000),
        (KeepAll(), 100_000),
        (WaitK(k=1), 100_000),
    ],
)
def test_the_longest_audio_of_a_stream(part: History | Policy, longest: Samples) -> None:
    assert part.longest_audio(OUTLINE) == longest


def test_a_stream_without_segments_has_no_longest_one() -> None:
    assert ReferenceSegments().longest_audio(StreamOutline(9, 1, 1)) == 0


def test_limits_are_those_of_the_papers() -> None:
    pauses = VoiceActivity()
    samples = (pauses.min_samples, pauses.max_samples, pauses.pause_samples, pauses.pad_samples)
    assert [number / SAMPLE_RATE for number in samples] == [15, 30, 0.1, 0.1]
    for history in (RecentWords(words=1), Punctuation()):
        assert (history.max_seconds, history.max_tokens, history.min_seconds) == (28.8, 128, 0)
