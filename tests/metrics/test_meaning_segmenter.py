"""Re-segmentation by vectors of words."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Instance
from zoo.metrics.longform import score_talks
from zoo.metrics.meaning_segmenter import meaning_segment
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.resegmentation import Resegmenter
from zoo.metrics.rules import RULES

EN, ZH = language("en"), language("zh")
MEANINGS = (
    {"the", "a"},
    {"doctor", "physician", "医"},
    {"sleeps", "rests", "睡"},
    {"dog", "hound", "犬"},
    {"barks", "yelps", "吠"},
    {"sun", "star", "日"},
    {"shines", "glows", "照"},
)


class TableEncoder:
    """An encoder whose vectors are equal for words of the same meaning, and else orthogonal."""

    signature = "table"

    def check(self) -> None:
        """Miss nothing."""

    def load(self, device: object = None) -> None:
        """Load nothing."""

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector per word; zero for a word without a known meaning."""
        rows = [[float(word in meaning) for meaning in MEANINGS] for word in words]
        return np.array(rows, np.float32).reshape(len(words), len(MEANINGS))


def cut(units: str, references: list[str]) -> list[str]:
    words = units.split()
    pieces = meaning_segment(words, references, language=EN, encoder=TableEncoder())
    return [" ".join(words[unit] for unit in piece) for piece in pieces]


REFERENCES = ["the doctor sleeps", "a dog barks", "the sun shines"]


def test_paraphrases_come_to_the_segment_of_their_meaning() -> None:
    assert cut("physician rests hound yelps star glows", REFERENCES) == [
        "physician rests",
        "hound yelps",
        "star glows",
    ]


def test_a_sentence_that_is_left_out_has_no_words() -> None:
    assert cut("a physician rests the star glows", REFERENCES) == [
        "a physician rests",
        "",
        "the star glows",
    ]


def test_unknown_words_stay_with_their_neighbours() -> None:
    assert cut("er physician rests well hound loudly yelps star glows um", REFERENCES) == [
        "er physician rests well",
        "hound loudly yelps",
        "star glows um",
    ]


def test_every_unit_has_one_segment_and_their_order_remains() -> None:
    words = [word for meaning in MEANINGS for word in sorted(meaning)] + ["um"]
    for seed in range(20):
        draw = random.Random(seed)
        units = draw.choices(words, k=draw.randint(0, 40))
        references = [
            " ".join(draw.choices(words, k=draw.randint(0, 5))) for _ in range(draw.randint(1, 9))
        ]
        pieces = meaning_segment(units, references, language=EN, encoder=TableEncoder())
        assert len(pieces) == len(references)
        assert [unit for piece in pieces for unit in piece] == list(range(len(units)))


def test_languages_without_spaces_are_assigned_by_character() -> None:
    pieces = meaning_segment("医睡犬吠", ["医 睡", "犬吠"], language=ZH, encoder=TableEncoder())
    assert pieces == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("units", "references", "expected"),
    [("", ["the doctor"], [""]), ("dog", ["", ""], ["dog", ""]), ("", ["", ""], ["", ""])],
)
def test_empty_sides(units: str, references: list[str], expected: list[str]) -> None:
    assert cut(units, references) == expected


def test_errors_name_their_cause() -> None:
    with pytest.raises(ZooError, match="at least one reference segment"):
        cut("dog", [])
    with pytest.raises(ZooError, match=r"resegmentation=meaning needs evaluation\.encoder"):
        Resegmenter("meaning")
    with pytest.raises(ZooError, match=r"encoder has no effect with .*resegmentation=soft"):
        Resegmenter("soft", TableEncoder())


def test_talks_are_scored_by_meaning_and_sign_the_encoder() -> None:
    references = [[ReferenceSegment(3.0 * i, 3.0, text) for i, text in enumerate(REFERENCES)]]
    units = ("physician", "rests", "star", "glows")
    delays = (2.0, 3.0, 8.0, 9.0)
    talk = Instance(
        index=0,
        talk="talk",
        source_length=9.0,
        text=" ".join(units),
        units=units,
        delays=delays,
        elapsed=delays,
        unit="word",
    )
    by_meaning = Resegmenter("meaning", TableEncoder())
    result = score_talks([talk], references, language=EN, resegmenter=by_meaning)
    assert [segment.hypothesis for segment in result.segments] == [
        "physician rests",
        "",
        "star glows",
    ]
    assert by_meaning.signature(RULES["zoo"]) == "meaning(table)"
    assert "reseg:meaning(table)" in result.scores["StreamLAAL"].signature
