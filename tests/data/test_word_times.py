"""Words of a transcript with the times of an aligner that spells them otherwise."""

import pytest

from zoo.base.languages import language
from zoo.base.talks import Segment, Word
from zoo.data.word_times import transcript_words

ENGLISH, CHINESE = language("en"), language("zh")


def segment(source: str, *words: tuple[str, float, float]) -> Segment:
    return Segment(1.0, 9.0, source, tuple(Word(*word) for word in words))


def test_the_corpus_spells_the_words_and_the_aligner_times_them() -> None:
    aligned = segment(
        "“Well,” he said: DON'T go.",
        *(("well", 1.0, 1.5), ("he", 1.5, 1.7), ("said", 1.7, 2.2)),
        *(("dont", 2.9, 3.3), ("go", 3.3, 4.0)),
    )
    assert transcript_words(aligned, ENGLISH) == [
        Word("“Well,”", 1.0, 1.5),
        Word("he", 1.5, 1.7),
        Word("said:", 1.7, 2.2),
        Word("DON'T", 2.9, 3.3),
        Word("go.", 3.3, 4.0),
    ]


def test_words_that_are_the_transcript_already_stay() -> None:
    aligned = segment("So, go.", ("So,", 1.0, 2.0), ("go.", 2.0, 3.0))
    assert transcript_words(aligned, ENGLISH) == list(aligned.words)


@pytest.mark.parametrize(
    ("source", "words", "expected"),
    [
        # several aligned words for one of the corpus
        ("In 1999 it", [("in", 1, 2), ("nineteen", 2, 3), ("ninety", 3, 4), ("it", 5, 6)], (2, 4)),
        # one aligned word for several, divided by their letters
        ("In New-York it", [("in", 1, 2), ("newyork", 2, 4), ("it", 5, 6)], (2, 4)),
        # none: the gap, or the rest of the segment
        ("In 7 it", [("in", 1, 2), ("it", 5, 6)], (2, 5)),
        ("In 7", [("in", 1, 2)], (2, 10)),
    ],
)
def test_other_words_have_the_time_of_their_place(
    source: str, words: list[tuple[str, float, float]], expected: tuple[float, float]
) -> None:
    timed = transcript_words(segment(source, *words), ENGLISH)
    assert (timed[1].start, timed[1].end) == expected


def test_a_time_is_divided_by_letters() -> None:
    timed = transcript_words(segment("A 12345 b!", ("onetwothree", 2.0, 9.0)), ENGLISH)
    assert [(word.start, word.end) for word in timed] == [(2, 3), (3, 8), (8, 9)]


def test_a_mark_alone_comes_with_the_next_word_and_at_the_end_with_the_last() -> None:
    aligned = segment("- So - go ...", ("so", 1.0, 2.0), ("go", 3.0, 4.0))
    assert [(word.text, word.end) for word in transcript_words(aligned, ENGLISH)] == [
        ("-", 2.0),
        ("So", 2.0),
        ("-", 4.0),
        ("go", 4.0),
        ("...", 4.0),
    ]
    assert transcript_words(segment("...", ("um", 1.0, 2.0)), ENGLISH) == [Word("...", 1.0, 10.0)]


def test_characters_have_shares_of_the_words_of_a_language_without_spaces() -> None:
    aligned = segment("今天，很好。", ("今天", 1.0, 3.0), ("很好", 4.0, 5.0))
    timed = transcript_words(aligned, CHINESE)
    assert CHINESE.join(word.text for word in timed) == aligned.source
    assert [word.end for word in timed] == [2.0, 3.0, 4.5, 4.5, 5.0, 5.0]
