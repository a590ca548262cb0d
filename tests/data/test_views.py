"""The sentence-level view, by hand."""

from pathlib import Path

from zoo.data.talks import Segment, Talk, Target, Word
from zoo.data.views import sentences


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
