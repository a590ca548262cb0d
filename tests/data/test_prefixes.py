"""Beginnings of sentences: audio, transcript and reference end together."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.config import build, compose
from zoo.data.prefixes import Prefixes

WORDS = tuple(Word(text, 2.0 + i, 3.0 + i) for i, text in enumerate(("Good", "cats", "sleep.")))
TARGET = Target(
    "Gute Katzen schlafen.",
    ("Gute", "Katzen", "schlafen."),
    ((0,), (1,), (2,)),
    prefixes=("Gute.", "Gute Katzen!"),
)
SENTENCE = Segment(1.5, 4.0, "Good cats sleep.", WORDS, {"de": TARGET})
TALK = Talk("talk", Path("a.wav"), 9.0, "en", (SENTENCE,) * 400, offset=7.0)


@dataclass
class OneTalk:
    talk: Talk
    name: str = "one"

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        return [self.talk]


def prefixes(talk: Talk = TALK, **options) -> list[Talk]:
    return list(Prefixes(corpus=OneTalk(talk), target_language="de", **options).talks("tst"))


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        ("prefixes", {"Good": "Gute.", "Good cats": "Gute Katzen!"}),
        ("alignment", {"Good": "Gute", "Good cats": "Gute Katzen"}),
    ],
)
def test_audio_transcript_and_reference_end_together(
    references: str, expected: dict[str, str]
) -> None:
    expected |= {SENTENCE.source: TARGET.text}
    found = prefixes(references=references)
    assert len(found) == 400
    for talk in found:
        (segment,) = talk.segments
        end = talk.offset - TALK.offset + talk.duration
        spoken = [word.text for word in WORDS if word.end <= end]
        assert segment.source == " ".join(spoken)
        assert segment.targets["de"].text == expected[segment.source]
        assert (segment.offset, segment.duration) == (0.0, talk.duration)
        assert talk.offset == TALK.offset + SENTENCE.offset
    ends = np.array([talk.duration + SENTENCE.offset for talk in found])
    assert np.all((ends >= 3.0) & (ends <= 5.5))
    assert abs(ends.mean() - 4.25) < 0.2  # uniform


def test_the_seed_determines_the_ends() -> None:
    assert prefixes() == prefixes()
    assert prefixes() != prefixes(seed=1)


def test_what_has_no_reference_yet_is_left_out() -> None:
    late = replace(TARGET, alignment=((2,), (2,), (2,)))
    talk = replace(TALK, segments=(replace(SENTENCE, targets={"de": late}),) * 50)
    found = prefixes(talk, references="alignment")
    assert 0 < len(found) < 50
    assert {one.segments[0].source for one in found} == {SENTENCE.source}


@pytest.mark.parametrize(
    ("segment", "options", "message"),
    [
        (replace(SENTENCE, words=()), {}, "has no word times"),
        (replace(SENTENCE, targets={}), {}, "No 'de' translation for 'Good cats sleep.'"),
        (
            replace(SENTENCE, targets={"de": replace(TARGET, prefixes=())}),
            {},
            "has no translation of its first",
        ),
    ],
)
def test_what_is_missing_is_named(segment: Segment, options: dict[str, str], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        prefixes(replace(TALK, segments=(segment,) * 9), **options)


def test_any_corpus_can_be_cut() -> None:
    cfg = compose("evaluate", ["data=prefixes", "data@data.corpus=minitalks"])
    assert build(cfg.data).corpus.name == "minitalks"
    with pytest.raises(ZooError, match=r"Unknown data\.references 'gold'"):
        Prefixes(corpus=OneTalk(TALK), target_language="de", references="gold")  # type: ignore[arg-type]
