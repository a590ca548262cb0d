"""Transcripts as references, where a system transcribes."""

from dataclasses import replace

import pytest

from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data.trajectories import emission_times
from zoo.data.transcripts import with_transcripts

WORDS = (Word("good", 0.5, 0.9), Word("cat", 0.9, 1.5))
SEGMENT = Segment(0.5, 1.0, "Good cat.", WORDS, {"de": Target("Gute Katze.")})


def talk(*segments: Segment, spoken: str = "en") -> Talk:
    return Talk("talk", None, 2.0, spoken, segments)


def test_the_transcript_is_the_reference_in_the_spoken_language() -> None:
    (one,) = with_transcripts([talk(SEGMENT)], {"en"})
    (segment,) = one.segments
    expected = Target("Good cat.", words=("Good", "cat."), alignment=((0,), (1,)))
    assert segment.targets == {"de": Target("Gute Katze."), "en": expected}
    assert emission_times(segment, "en") == [("Good", 0.9), ("cat.", 1.5)]


@pytest.mark.parametrize("words", [(), (*WORDS, Word("sat", 1.5, 1.6))])
def test_without_times_of_its_words_it_is_not_aligned(words: tuple[Word, ...]) -> None:
    (one,) = with_transcripts([talk(replace(SEGMENT, words=words))], {"en"})
    assert one.segments[0].targets["en"] == Target("Good cat.")


def test_a_reference_of_the_corpus_stays() -> None:
    given = talk(replace(SEGMENT, targets={"en": Target("A good cat.")}))
    assert with_transcripts([given], {"en"}) == [given]


@pytest.mark.parametrize(
    ("given", "targets"),
    [
        (talk(SEGMENT), {"de"}),
        (talk(SEGMENT, spoken="cs"), {"en"}),
        (talk(SEGMENT, replace(SEGMENT, source=" ")), {"en"}),
    ],
    ids=["translation", "other speech", "no transcript"],
)
def test_other_talks_stay(given: Talk, targets: set[str]) -> None:
    assert with_transcripts([given], targets) == [given]
