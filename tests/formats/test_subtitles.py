"""Cues with the times of the emissions: exact files."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from zoo.base.types import Instance, UnitKind
from zoo.formats.subtitles import COLUMNS, LINES, cues, srt, vtt, width

SENTENCES = (
    ("Guten Morgen,", 2.1),
    ("meine Damen", 2.75),
    ("und Herren.", 4.0),
    ("Heute geht", 4.5),
    ("es um A < B & C.", 9.0),
)
SRT = """\
1
00:00:02,100 --> 00:00:04,500
Guten Morgen, meine Damen und Herren.

2
00:00:04,500 --> 00:00:08,500
Heute geht

3
00:00:09,000 --> 00:00:13,000
es um A < B & C.
"""
VTT = """\
WEBVTT

00:00:02.100 --> 00:00:04.500
Guten Morgen, <00:00:02.750>meine Damen <00:00:04.000>und Herren.

00:00:04.500 --> 00:00:08.500
Heute geht

00:00:09.000 --> 00:00:13.000
es um A &lt; B &amp; C.
"""
LONG = (
    "um Untertitel, die jemand lesen kann, obwohl sie mit einem einzigen Schritt gekommen sind und "
    "drei ganze Zeilen brauchen."
)
CHINESE = """\
1
00:00:02,100 --> 00:00:06,671
今天我们讨论SimulST系统，它很好。

2
00:00:09,000 --> 00:00:14,286
一二三四五六七八九十一二
三四五六七八九十一二三四
"""


def stream(emissions: Sequence[tuple[str, float]], unit: UnitKind = "word") -> Instance:
    """A stream whose emissions have these texts and elapsed times."""
    separator = " " if unit == "word" else ""
    units: list[str] = []
    elapsed: list[float] = []
    for text, at in emissions:
        found = text.split() if unit == "word" else list("".join(text.split()))
        units += found
        elapsed += [at] * len(found)
    text = separator.join(text for text, _ in emissions)
    delays = tuple(at - 0.5 for at in elapsed)
    return Instance(0, "talk", 9.5, text, tuple(units), delays, tuple(elapsed), unit=unit)


def test_cues_start_at_the_emission_of_their_first_word() -> None:
    assert srt(stream(SENTENCES)) == SRT


def test_webvtt_has_the_time_of_every_emission() -> None:
    assert vtt(stream(SENTENCES)) == VTT


def test_a_character_has_two_columns_and_its_punctuation_on_its_line() -> None:
    numbers = "一二三四五六七八九十一二三四五六七八九十一二三四"
    emissions = [("今天我们讨论SimulST系统，", 2.1), ("它很好。", 3.0), (numbers, 9.0)]
    assert srt(stream(emissions, "char")) == CHINESE


def test_a_long_emission_is_shown_in_parts_before_the_next_emission() -> None:
    first, second, third = cues(stream([(LONG, 9.0), ("Ende.", 11.0)]))
    assert (first.start, first.end, third.start) == (9.0, second.start, 11.0)
    assert 9.0 < second.start < second.end == 11.0
    assert [len(cue.lines) for cue in (first, second, third)] == [2, 2, 1]


def test_an_emission_that_does_not_fit_begins_a_cue() -> None:
    found = cues(stream([("eins zwei drei", 1.0), (LONG, 2.0)]))
    assert [cue.start for cue in found[:2]] == [1.0, 2.0]


def test_a_cue_has_no_word_of_later_seconds() -> None:
    found = cues(stream([(word, float(place)) for place, word in enumerate("abcdef")]))
    assert [cue.start for cue in found] == [0.0, 3.0]


def test_a_cue_that_would_flash_joins_the_one_before_it() -> None:
    emissions = [("eins", 1.0), ("zwei", 2.0), ("drei.", 4.1), ("Vier.", 4.7), ("Fünf.", 9.0)]
    assert [cue.start for cue in cues(stream(emissions))] == [1.0, 4.7, 9.0]
    assert [cue.start for cue in cues(stream([("Eins.", 1.0), (LONG, 1.5)]))][:2] == [1.0, 1.5]


def test_the_lines_of_a_cue_have_about_the_same_width() -> None:
    (cue,) = cues(stream([("Die Zeit der langen ersten Zeile ist nun wirklich vorbei", 1.0)]))
    texts = ["".join(word.text for word in line).rstrip() for line in cue.lines]
    assert texts == ["Die Zeit der langen ersten", "Zeile ist nun wirklich vorbei"]


@pytest.mark.parametrize("unit", ["word", "char"])
def test_no_line_is_too_wide_and_no_word_is_lost(unit: UnitKind) -> None:
    text = " ".join(["Donaudampfschifffahrtsgesellschaftskapitänsmützen 字字", LONG] * 3)
    found = cues(stream([(text, 1.0), (text, 5.0)], unit))
    for cue in found:
        assert len(cue.lines) <= LINES
        for line in cue.lines:
            assert width("".join(word.text for word in line).rstrip()) <= COLUMNS
    shown = "".join(word.text for cue in found for line in cue.lines for word in line)
    assert "".join(shown.split()) == "".join((text + text).split())
    assert all(one.start < one.end <= two.start for one, two in pairwise(found))


def test_a_stream_without_words_has_no_cue() -> None:
    assert srt(stream([])) == ""
    assert vtt(stream([])) == "WEBVTT\n"


def test_hours_are_written() -> None:
    assert srt(stream([("Ende", 3 * 3600 + 62.0005)])).startswith("1\n03:01:02,")
