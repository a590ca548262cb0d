"""The words of a stream as a terminal of 80 columns shows them."""

import io

import pytest

from zoo.apps.translate.display import Display, clock
from zoo.base.languages import language
from zoo.base.types import ChunkTime, Instance
from zoo.streaming.translation import EmittedText

GERMAN = (
    " Guten Mor",
    "",
    "gen. Heute geht es um die Übersetzung von",
    " Vorträgen, die noch",
    " laufen.",
)
SHOWN = """\
talk (1:05.2)
  0:01.2  Guten Morgen.
  0:03.2  Heute geht es um die Übersetzung von Vorträgen, die noch laufen.
          13 words, 1.0 s of compute, 5.0 times real time
"""


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def shown(texts: tuple[str, ...], code: str) -> str:
    """What is printed if each second one text is emitted, after 0.2 s of compute."""
    file = io.StringIO()
    display = Display(language(code), file)
    display.begin("talk", 65.2)
    for place, text in enumerate(texts):
        if text:
            display.show(EmittedText(text, place + 1.0, place + 1.2))
    chunks = tuple(ChunkTime(place + 1.0, 0.2) for place in range(len(texts)))
    target = language(code)
    units = tuple(target.units("".join(texts)))
    display.end(Instance(0, "talk", len(texts), "", units, (), (), unit=target.unit, chunks=chunks))
    return file.getvalue()


def test_a_line_begins_with_the_time_of_its_first_word_and_ends_with_its_sentence() -> None:
    assert shown(GERMAN, "de") == SHOWN


def test_deleted_words_are_marked() -> None:
    file = io.StringIO()
    display = Display(language("de"), file)
    display.show(EmittedText("Guten Tag", 1.0, 1.2))
    display.show(EmittedText(" Abend.", 2.0, 2.2, deleted="Tag"))
    assert file.getvalue() == "  0:01.2  Guten Tag [-Tag-] Abend."


def test_a_long_sentence_is_divided_between_words() -> None:
    lines = shown(("eins zwei drei vier fünf sechs sieben " * 4,), "de").splitlines()
    assert [len(line) <= 80 for line in lines] == [True] * len(lines)
    assert lines[1].endswith("fünf sechs")
    assert lines[2].startswith("  0:01.2  sieben eins")


def test_characters_of_two_columns_are_divided_anywhere() -> None:
    lines = shown(("字" * 36, "。好"), "zh").splitlines()
    assert lines[1] == "  0:01.2  " + "字" * 35
    assert lines[2:4] == ["  0:01.2  字。", "  0:02.2  好"]
    assert "38 characters" in lines[4]


def test_times() -> None:
    assert [clock(0.04), clock(59.96), clock(3_725)] == ["0:00.0", "1:00.0", "62:05.0"]
