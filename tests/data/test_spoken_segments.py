"""Clips of the source speech for training recognisers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Word
from zoo.data.spoken_segments import SpokenSegmentConfig, SpokenSegments


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """A file whose samples grow with time; the talk begins 1 s after the file."""
    audio.write(tmp_path / "talk.wav", torch.linspace(0, 0.9, 96_000))
    first = Segment(1.0, 1.0, "Good day.", (Word("Good", 1.0, 1.4), Word("day.", 1.4, 2.0)))
    segments = (first, Segment(2.5, 0.5, "(–)"), Segment(3.0, 2.0, "Too long."))
    phonemes = (Word("h", 0.2, 0.3), Word("g", 1.0, 1.1), Word("d", 1.4, 1.5))
    return Talk(
        "talk", tmp_path / "talk.wav", 5.0, "en", segments, 1.0, "en", {"phonemes": phonemes}
    )


def test_a_clip_has_transcript_samples_and_times_of_its_segment(talk: Talk) -> None:
    sampler = SpokenSegments([talk], SpokenSegmentConfig(margin=0.3, max_seconds=1.5))
    plan = sampler.plan(0, np.random.default_rng(0))
    assert plan.seconds.tolist() == [1.0]  # neither the second, without words, nor the third

    [clip] = sampler.examples(0, plan.positions, np.random.default_rng(1))
    start, end = clip.excerpt.start, clip.excerpt.end
    assert 0.7 <= start < 1.0
    assert 2.0 < end <= 2.3
    assert clip.excerpt.text == "Good day."
    assert len(clip.samples) % 320 == 0
    assert (end - start) - 0.02 < clip.seconds <= end - start
    expected = audio.load(talk.file, start=1 + start, duration=clip.seconds)
    assert torch.equal(clip.samples, expected)
    assert [word.text for word in clip.words] == ["Good", "day."]
    assert [phoneme.text for phoneme in clip.phonemes] == ["g", "d"]
    assert clip.phonemes[0].start == pytest.approx(1.0 - start)


def test_talks_without_transcripts_are_refused(talk: Talk) -> None:
    with pytest.raises(ZooError, match="no segments with transcripts"):
        SpokenSegments([talk], SpokenSegmentConfig(max_seconds=0.6))
