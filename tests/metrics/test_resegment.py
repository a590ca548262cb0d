"""Re-segmentation by minimum WER and by likeness of words."""

import logging
import os
import random

import psutil
import pytest

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.metrics.moses import moses_tokens
from zoo.metrics.mwer_segmenter import mwer_segment
from zoo.metrics.rules import RULES
from zoo.metrics.soft_segmenter import similarity, soft_segment

DE, ZH, EN = language("de"), language("zh"), language("en")


def words(units: str, references: list[str], rules: str = "zoo") -> list[str]:
    cut = units.split()
    return [
        " ".join(cut[i] for i in piece)
        for piece in mwer_segment(cut, references, language=DE, rules=RULES[rules])
    ]


def likely(units: str, references: list[str]) -> list[str]:
    cut = units.split()
    return [" ".join(cut[i] for i in piece) for piece in soft_segment(cut, references, language=DE)]


@pytest.mark.parametrize("cut", [words, likely])
def test_exact_hypothesis_comes_apart_at_the_references(cut: object) -> None:
    assert cut("Das ist gut . Das war schlecht .", ["Das ist gut .", "Das war schlecht ."]) == [  # type: ignore[operator]
        "Das ist gut .",
        "Das war schlecht .",
    ]


@pytest.mark.parametrize("cut", [words, likely])
def test_missing_sentence_leaves_an_empty_segment(cut: object) -> None:
    assert (
        cut("eins zwei drei sieben acht neun", ["eins zwei drei", "vvv", "sieben acht neun"])[1]
        == ""
    )  # type: ignore[operator]


@pytest.mark.parametrize("cut", [words, likely])
@pytest.mark.parametrize("empty", [0, 1, 2])
def test_empty_reference_segments_keep_their_place(cut: object, empty: int) -> None:
    references = ["eins zwei", "drei vier"]
    references.insert(empty, "")
    pieces = cut("eins zwei drei vier", references)  # type: ignore[operator]
    assert len(pieces) == 3
    assert " ".join(piece for piece in pieces if piece) == "eins zwei drei vier"
    assert pieces[empty] == ""


@pytest.mark.parametrize("cut", [words, likely])
def test_no_words_and_no_references(cut: object) -> None:
    assert cut("", ["eins", "zwei"]) == ["", ""]  # type: ignore[operator]
    assert cut("eins zwei", ["", ""]) == ["eins zwei", ""]  # type: ignore[operator]


def test_case_counts_unless_the_rules_fold_it() -> None:
    # "A b" is the end of the first only if case matters
    assert words("x A b", ["x A", "a b"]) == ["x A", "b"]
    assert words("DAS x das y", ["das x", "DAS y"], "simulstream") == ["DAS x", "das y"]


def test_folding_touches_ascii_only() -> None:
    # mweralign 1.4.1 folds bytes: it takes O for o but not Ö for ö. If it folded Ö, Öde would go to
    # the first
    assert words("x Öde y", ["x öde", "Öde y"], "simulstream") == ["x", "Öde y"]
    assert words("x Ode y", ["x ode", "Ode y"], "simulstream") == ["x Ode", "y"]


def test_no_break_spaces_part_words_only_for_us() -> None:
    # "b\u00a0c" is one word for tools in C++: nothing of the hypothesis is in the second reference
    assert words("a b c d", ["a", "b\u00a0c", "d"]) == ["a", "b c", "d"]
    assert words("a b d", ["a b", "b\u00a0b", "d"], "simuleval") == ["a b", "", "d"]


def test_characters_with_latin_runs() -> None:
    units = list("你好AI模型")
    pieces = mwer_segment(units, ["你好 AI", "模型"], language=ZH, rules=RULES["zoo"])
    assert ["".join(units[i] for i in piece) for piece in pieces] == ["你好AI", "模型"]
    spaced = list("你好 AI 模型")
    pieces = mwer_segment(spaced, ["你好 AI ", "模型"], language=ZH, rules=RULES["simulstream"])
    assert ["".join(spaced[i] for i in piece) for piece in pieces] == ["你好 AI ", "模型"]


def test_a_latin_run_is_never_divided() -> None:
    pieces = mwer_segment(list("AI你好"), ["A", "I你好"], language=ZH, rules=RULES["simulstream"])
    assert pieces == [range(2), range(2, 4)]


@pytest.mark.parametrize("aligned", ["0 1\n", "0\n1\n2"])
def test_an_aligner_that_loses_words_or_segments_is_refused(
    aligned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.metrics.mwer_segmenter._mweralign", lambda *_: aligned)
    with pytest.raises(ZooError, match="lost words; check that version"):
        words("a b c", ["a", "b c"])


def test_long_work_is_announced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for least, announced in ((7, False), (6, True)):
        monkeypatch.setattr("zoo.metrics.mwer_segmenter.LONG_WORK", least)
        words("a b", ["a", "b c"])
        assert ("2 words to segments of 3" in caplog.text) == announced


def test_every_unit_goes_somewhere_in_order() -> None:
    draw = random.Random(1)
    for _ in range(30):
        units = [draw.choice("abcdefg,.") for _ in range(draw.randint(0, 40))]
        references = [
            " ".join(draw.choice("abcdefg,.") for _ in range(draw.randint(1, 8))) for _ in range(5)
        ]
        flat = [
            i
            for piece in mwer_segment(units, references, language=DE, rules=RULES["zoo"])
            for i in piece
        ]
        assert flat == list(range(len(units)))
        flat = [i for piece in soft_segment(units, references, language=DE) for i in piece]
        assert flat == sorted(set(flat))


def test_no_segments() -> None:
    with pytest.raises(ZooError, match="at least one"):
        mwer_segment(["a"], [], language=DE, rules=RULES["zoo"])


def test_the_aligner_leaves_logging_and_stderr_alone(capfd: pytest.CaptureFixture[str]) -> None:
    handlers, opened = list(logging.root.handlers), psutil.Process().num_fds()
    words("a b", ["a", "b"])
    assert psutil.Process().num_fds() == opened
    assert logging.root.handlers == handlers
    os.write(2, b"printed later")
    assert capfd.readouterr() == ("", "printed later")


def test_likeness() -> None:
    assert similarity("abc", "abd", exact=False) == pytest.approx(2 / 4)
    assert similarity(",", "a", exact=False) == float("-inf")
    assert similarity(",", ".", exact=False) == 0.0
    assert similarity("a", "a", exact=True) == 1.0


def test_soft_prefers_like_words_to_equal_positions() -> None:
    assert likely("Hallo Welten wie gehts", ["Hallo Welt", "wie geht es"]) == [
        "Hallo Welten",
        "wie gehts",
    ]


def test_soft_gives_a_run_to_the_neighbour_it_is_like() -> None:
    # "xx" resembles neither: it stays with the one before
    assert likely("gut xx neu", ["gut", "neu"]) == ["gut xx", "neu"]


@pytest.mark.parametrize(
    ("word", "code", "pieces"),
    [
        ("it's,", "en", ["it", "'s", ","]),
        ("dogs'", "en", ["dogs'"]),
        ("l'amico", "it", ["l'", "amico"]),
        ("geht's", "de", ["geht", "'", "s"]),
        ("usw.", "de", ["usw."]),
        ("gut.", "de", ["gut", "."]),
        ("z.b.", "de", ["z.b."]),
        ("online-kurs", "de", ["online", "@-@", "kurs"]),
        ("5,300", "en", ["5,300"]),
        ("a,b", "en", ["a", ",", "b"]),
        ("so...", "en", ["so", "..."]),
        ("(ja)", "de", ["(", "ja", ")"]),
        ("x_y", "de", ["x", "_", "y"]),
    ],
)
def test_moses_pieces(word: str, code: str, pieces: list[str]) -> None:
    assert moses_tokens(word, code) == pieces
