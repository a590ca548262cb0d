"""Views of talks, by hand."""

from pathlib import Path

import numpy as np
import pytest

from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data.robust_segments import RobustSegments
from zoo.data.sampling import Stretches
from zoo.data.trajectories import emission_times
from zoo.data.views import sentences, talks_to_stream, usable_parts


def test_each_segment_becomes_a_talk() -> None:
    first = Segment(
        0.5,
        1.0,
        "Good cat.",
        (Word("Good", 0.5, 0.9), Word("cat.", 0.9, 1.5)),
        {"de": Target("Gut.")},
    )
    second = Segment(2.0, 0.7, "Stop.", (Word("Stop.", 2.1, 2.7),))
    phonemes = tuple(
        Word(name, start, start + 0.2) for name, start in (("g", 0.5), ("t", 1.4), ("s", 2.1))
    )
    talk = Talk("t", Path("t.wav"), 3.5, "en", (first, second), 10.0, "f1", {"phonemes": phonemes})
    one, two = sentences([talk])
    assert (one.name, one.audio, one.offset, one.duration, one.voice) == (
        "t-0000",
        Path("t.wav"),
        10.5,
        1.0,
        "f1",
    )
    assert one.segments == (
        Segment(
            0.0,
            1.0,
            "Good cat.",
            (Word("Good", 0.0, 0.4), Word("cat.", 0.4, 1.0)),
            {"de": Target("Gut.")},
        ),
    )
    assert one.labels == {"phonemes": (Word("g", 0.0, 0.2), Word("t", 0.9, 1.0))}
    assert (two.name, two.offset, two.duration) == ("t-0001", 12.0, 0.7)
    assert two.segments[0].words == (Word("Stop.", 0.1, 0.7),)
    assert two.labels == {"phonemes": (Word("s", 0.1, 0.3),)}


def test_segments_with_an_empty_translation_are_not_streamed_alone() -> None:
    texts = {"de": Target("Gut."), "es": Target(" ")}
    segments = (
        Segment(0.0, 1.0, "Good.", (), {"de": Target("Gut.")}),
        Segment(1.0, 1.0, "Good.", (), texts),
        Segment(2.0, 1.0, "Good."),
    )
    talk = Talk("t", Path("t.wav"), 3.0, "en", segments)
    assert [one.name for one in talks_to_stream([talk], "segments")] == ["t-0000", "t-0002"]
    assert talks_to_stream([talk], "talks") == [talk]


def spoken(offset: float) -> Segment:
    """A segment of 2 s with one word, aligned to one target word."""
    words = (Word("so", offset + 0.5, offset + 1.5),)
    return Segment(offset, 2.0, "so", words, {"de": Target("so", ("so",), ((0,),))})


APPLAUSE = Segment(10.0, 5.0, "(Applause)", (), {"de": Target("(Applaus)")}, usable=False)


def test_the_parts_of_a_talk_are_between_the_segments_that_are_not_usable() -> None:
    phonemes = (Word("a", 1.0, 1.1), Word("b", 12.0, 12.1), Word("c", 16.5, 16.6))
    talk = Talk(
        "t",
        Path("t.wav"),
        30.0,
        "en",
        (spoken(1.0), APPLAUSE, spoken(16.0), Segment(28.0, 1.0, "?", usable=False)),
        100.0,
        labels={"phonemes": phonemes},
    )
    before, after = usable_parts([talk])
    assert (before.offset, before.duration) == (100.0, 10.0)
    assert before.segments == talk.segments[:1]
    assert (after.offset, after.duration) == (115.0, 13.0)
    assert after.segments == (spoken(1.0),)
    assert after.labels == {"phonemes": (Word("c", 1.5, 1.6),)}
    assert emission_times(after.segments[0], "de") == [("so", 2.5)]
    assert len({talk.name, before.name, after.name}) == 3


def test_a_talk_of_usable_segments_is_unchanged() -> None:
    talk = Talk("t", Path("t.wav"), 30.0, "en", (spoken(1.0), spoken(4.0)))
    assert usable_parts([talk])[0] is talk
    assert not usable_parts([Talk("t", Path("t.wav"), 30.0, "en", (APPLAUSE,))])


@pytest.mark.parametrize("on_grid", [False, True])
def test_robust_segments_end_before_applause_and_resume_after_it(on_grid: bool) -> None:
    talk = Talk("t", Path("t.wav"), 30.0, "en", (spoken(1.0), APPLAUSE, spoken(16.0)))
    segments = RobustSegments(
        usable_parts([talk]),
        chunk_seconds=1.0,
        stretches=Stretches(chunks=[4, 6], multipliers=[1, 2]),
        on_grid=on_grid,
    )
    covered: set[int] = set()  # seconds of the recording
    for seed in range(20):
        for place in segments.plan(np.random.default_rng(seed)).positions:
            one = segments.segment(place)
            begin = one.talk.offset + one.start
            end = min(begin + one.seconds, one.talk.offset + one.talk.duration)
            assert end <= 10.0 or begin >= 15.0
            covered |= set(range(round(begin), round(end)))
    assert covered == {*range(10), *range(15, 30)}


def test_a_sentence_keeps_the_words_that_its_alignment_counts() -> None:
    """An aligner may place words before the start or after the end of their segment."""
    words = (Word("a", 0.9, 1.1), Word("b", 1.2, 1.9), Word("c", 2.1, 2.3))
    target = Target("A B C", ("A", "B", "C"), ((0,), (1,), (2,)))
    segment = Segment(1.0, 1.0, "a b c", words, {"de": target})
    (one,) = sentences([Talk("t", Path("t.wav"), 30.0, "en", (segment,))])
    assert one.segments[0].words == (Word("a", 0.0, 0.1), Word("b", 0.2, 0.9), Word("c", 1.0, 1.0))
    assert emission_times(one.segments[0], "de") == [("A", 0.1), ("B", 0.9), ("C", 1.0)]
