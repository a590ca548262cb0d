"""Words of a hypothesis are right, wrong, added or repeated; words of the reference are missing."""

import pytest

from zoo.base.languages import language
from zoo.metrics.alignment import Alignment, align, mark_repetitions

GERMAN, CHINESE = language("de"), language("zh")


@pytest.mark.parametrize(
    ("hypothesis", "reference", "marks", "missing"),
    [
        ("das ist ein Haus", "das ist ein Haus", "====", ()),
        ("das ist Haus", "das ist ein Haus", "===", ((2, 2),)),
        ("das war ein Haus", "das ist ein Haus", "=x==", ()),
        ("das ist nun ein Haus", "das ist ein Haus", "==+==", ()),
        ("nach einer einer Frau", "nach einer Frau", "==+=", ()),  # the second one is added
        ("in der in der Stadt", "in der Stadt", "==++=", ()),
        ("Das ist", "das ist", "x=", ()),  # with case, as BLEU counts
        ("", "das ist", "", ((0, 0), (0, 1))),
        ("das ist", "", "++", ()),
    ],
)
def test_units_are_marked_by_a_minimum_edit_alignment(
    hypothesis: str, reference: str, marks: str, missing: tuple[tuple[int, int], ...]
) -> None:
    found = align(hypothesis.split(), reference.split(), language=GERMAN)
    assert found == Alignment(marks, missing)


def test_punctuation_makes_no_word_wrong() -> None:
    found = align(["Haus", "und", "Hof."], ["Haus,", "und", "Hof"], language=GERMAN)
    assert found == Alignment("===", ())


def test_a_word_that_a_comma_replaces_is_missing() -> None:
    found = align(["Haus,", "ist"], ["Haus", "das", "ist"], language=GERMAN)
    assert found == Alignment("==", ((1, 1),))


def test_characters_are_tokens_in_chinese() -> None:
    found = align(list("我们很好"), list("我很好吗"), language=CHINESE)
    assert found == Alignment("=+==", ((4, 3),))


def test_wrong_units_that_repeat_others_are_repeated() -> None:
    units = ["wir", "gehen", "heute", "wir", "gehen", "heute", "Heute,", "der", "Hund", "der"]
    marks = "===" + "+++" + "x" + "==" + "+"
    # a single word at a distance is chance; case and punctuation are ignored
    assert mark_repetitions(units, marks, language=GERMAN) == "===rrrr==+"
    assert mark_repetitions(units, "=" * 10, language=GERMAN) == "=" * 10
    assert mark_repetitions(list("你好吗你好吗"), "===+++", language=CHINESE) == "===+++"
    assert mark_repetitions(list("你好吗呢你好吗呢"), "====++++", language=CHINESE) == "====rrrr"
    assert mark_repetitions([], "", language=GERMAN) == ""
