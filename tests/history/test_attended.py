"""The histories of StreamAtt, asked by hand: which text goes, and which audio with it."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from tests.history.streams import FRAME, answered, session
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Cut
from zoo.history.attended import AttendedHistory
from zoo.history.punctuation import Punctuation
from zoo.history.recent_words import RecentWords

FRAME_SECONDS = FRAME / SAMPLE_RATE


@pytest.mark.parametrize(
    ("tokens", "attended", "num_written", "cut"),
    [
        # the first word goes, audio to the next one's frame
        ("w.ww", [3, 4, 8, 9], 4, Cut(tokens=2, frames=8)),
        # ... to the earliest frame of those kept
        ("w.ww", [3, 4, 9, 8], 4, Cut(tokens=2, frames=8)),
        ("w.w.", [3, 4, 8, 9], 4, Cut()),  # two words are kept: nothing goes, though audio could
        # the last token is not written: its frame is no matter
        ("www.w", [1, 4, 6, 2, 0], 4, Cut(tokens=1, frames=2)),
        ("wwww", [5, 6, 0, 0], 4, Cut(tokens=2, frames=0)),  # text may go where no audio can
        # the prefix begins within a word, dropped by an old cut
        (".www", [0, 1, 5, 6], 4, Cut(tokens=2, frames=5)),
        (".ww", [0, 3, 4], 3, Cut(tokens=1, frames=3)),  # what is left of that word goes too
        ("w", [7], 1, Cut()),  # one row
        ("w", [7], 0, Cut()),  # nothing written yet
        ("", [], 0, Cut()),
        ("....", [5, 6, 7, 8], 4, Cut()),  # no word begins
    ],
)
def test_recent_words_cuts_text_then_the_audio_that_no_kept_word_attends_to(
    tokens: str, attended: list[int], num_written: int, cut: Cut
) -> None:
    stream = session(20, prefix=num_written)
    assert (
        RecentWords(words=2).trim(stream, answered(tokens, attended, prefix=min(1, num_written)))
        == cut
    )


def test_characters_count_as_words_where_there_are_no_spaces() -> None:
    stream = session(20, prefix=6)
    # the second one has three bytes, a token each
    characters = answered("ww..ww", [1, 2, 3, 3, 8, 9])
    assert RecentWords(words=3).trim(stream, characters) == Cut(tokens=1, frames=2)
    assert RecentWords(words=2).trim(stream, characters) == Cut(tokens=4, frames=8)


@pytest.mark.parametrize(
    ("tokens", "attended", "num_written", "after", "sentence"),
    [
        ("ww?ww", [1, 2, 3, 6, 8], 5, Cut(tokens=3, frames=6), Cut(tokens=3, frames=6)),
        ("ww?", [1, 2, 3], 3, Cut(tokens=3, frames=4), Cut()),  # the text ends in punctuation
        ("w?ww?", [1, 2, 5, 8, 9], 5, Cut(tokens=5, frames=10), Cut(tokens=2, frames=5)),
        # punctuation comes first
        ("?ww", [1, 4, 6], 3, Cut(tokens=1, frames=4), Cut(tokens=1, frames=4)),
        ("?", [5], 1, Cut(tokens=1, frames=6), Cut()),  # ... and last
        ("w?w!w", [1, 2, 3, 5, 6], 5, Cut(tokens=4, frames=6), Cut(tokens=4, frames=6)),
        ("www", [1, 2, 3], 3, Cut(), Cut()),  # no punctuation
        ("www?", [1, 2, 3, 4], 3, Cut(), Cut()),  # punctuation that is not written
        ("", [], 0, Cut(), Cut()),
        ("??", [3, 2], 2, Cut(tokens=2, frames=4), Cut(tokens=1, frames=2)),
    ],
)
def test_punctuation_cuts_text_at_the_end_of_a_sentence(
    tokens: str, attended: list[int], num_written: int, after: Cut, sentence: Cut
) -> None:
    stream = session(20, prefix=num_written)
    answer = answered(tokens, attended)
    assert Punctuation(keep="after", rows="hypothesis").trim(stream, answer) == after
    assert Punctuation().trim(stream, answer) == sentence


@pytest.mark.parametrize(
    ("tokens", "attended", "frames"),
    [
        # Nothing is kept: audio goes up to what waits, even if that was translated.
        ("w?ww", [3, 4, 9, 12], 9),
        ("w?ww", [3, 8, 6, 12], 6),
        ("w?", [3, 4], 5),  # nothing waits: what was translated goes
        ("w?", [9, 4], 10),  # up to the last frame that any of it attended to
        ("w?", [3, 19], 20),  # all audio may go
    ],
)
def test_where_no_text_is_kept_audio_that_is_not_translated_stays(
    tokens: str, attended: list[int], frames: int
) -> None:
    after = Punctuation(keep="after", rows="hypothesis")
    cut = after.trim(session(20, prefix=2), answered(tokens, attended))
    assert cut == Cut(tokens=2, frames=frames)


def test_no_text_is_kept_only_with_the_rows_of_the_hypothesis() -> None:
    with pytest.raises(ZooError, match=r"history\.keep=after .* needs history\.rows=hypothesis"):
        Punctuation(keep="after")


def test_rows_of_the_hypothesis_hold_audio_back() -> None:
    stream = session(20, prefix=3)
    answer = answered("wwwww", [1, 8, 9, 6, 7])
    assert RecentWords(words=2).trim(stream, answer) == Cut(tokens=1, frames=8)
    assert RecentWords(words=2, rows="hypothesis").trim(stream, answer) == Cut(tokens=1, frames=6)


def test_audio_may_be_cut_at_every_step() -> None:
    stream = session(20, prefix=2)
    answer = answered("wwww", [7, 5, 1, 1])
    assert RecentWords(words=2, cut="always").trim(stream, answer) == Cut(frames=5)
    assert Punctuation(cut="always").trim(stream, answer) == Cut(frames=5)
    assert RecentWords(words=1, cut="always").trim(stream, answer) == Cut(tokens=1, frames=5)
    # nothing written: nothing to go by
    assert RecentWords(words=2, cut="always").trim(session(20), answer) == Cut()


@pytest.mark.parametrize(
    ("floor", "frames"), [(0.0, 12), (0.8, 12), (0.81, 11), (1.5, 5), (2.0, 0), (9.0, 0)]
)
def test_the_floor_shortens_the_cut(floor: float, frames: int) -> None:
    history = RecentWords(words=1, min_seconds=floor)
    assert history.trim(session(20, prefix=2), answered("ww", [0, 12])) == Cut(
        tokens=1, frames=frames
    )


def test_the_floor_holds_where_no_text_is_kept() -> None:
    history = Punctuation(keep="after", rows="hypothesis", min_seconds=1.5)
    assert history.trim(session(20, prefix=2), answered("w?", [0, 12])) == Cut(tokens=2, frames=5)


@pytest.mark.parametrize("history", [RecentWords(words=2), Punctuation()])
@pytest.mark.parametrize(("frames", "dropped"), [(287, 0), (288, 0), (289, 1), (500, 212)])
def test_more_audio_than_the_cap_goes(history: AttendedHistory, frames: int, dropped: int) -> None:
    assert history.trim(session(frames, prefix=9), None) == Cut(frames=dropped)


@pytest.mark.parametrize("none", [None, inf])
def test_without_a_cap_audio_goes_with_its_text_only(none: float | None) -> None:
    history = RecentWords(words=1, max_seconds=none)
    assert history.trim(session(5000, prefix=9), None) == Cut()
    assert history.trim(session(5000, prefix=2), answered("ww", [0, 7])) == Cut(tokens=1, frames=7)


def test_the_cap_does_not_give_back_what_the_words_cut() -> None:
    history = RecentWords(words=1, max_seconds=1.9)
    assert history.trim(session(20, prefix=2), answered("ww", [0, 7])) == Cut(tokens=1, frames=7)


def test_the_cap_cuts_what_the_floor_would_keep() -> None:
    history = RecentWords(words=1, min_seconds=1.0, max_seconds=1.5)
    assert history.trim(session(20, prefix=2), answered("ww", [0, 12])) == Cut(tokens=1, frames=10)
    assert history.trim(session(20, prefix=2), answered("ww", [0, 2])) == Cut(tokens=1, frames=5)


@pytest.mark.parametrize(
    ("tokens", "max_tokens", "cut"),
    [
        ("w.w.w.", None, Cut()),
        ("w.w.w.", 6, Cut()),
        ("w.w.w.", 5, Cut(tokens=2, frames=2)),  # in whole words
        ("w.w.w.", 4, Cut(tokens=2, frames=2)),
        ("w.w.w.", 1, Cut(tokens=5, frames=5)),  # no word begins in what may be kept
        ("......", 4, Cut(tokens=2, frames=2)),
        ("?.w.w.", 4, Cut(tokens=2, frames=2)),  # more than punctuation would cut
    ],
)
def test_text_has_a_cap_of_its_own(tokens: str, max_tokens: int | None, cut: Cut) -> None:
    answer = answered(tokens, [0, 1, 2, 3, 4, 5])
    assert Punctuation(max_tokens=max_tokens).trim(session(20, prefix=6), answer) == cut
    assert RecentWords(words=9, max_tokens=max_tokens).trim(session(20, prefix=6), answer) == cut


def test_a_backbone_without_sentence_ends_raises() -> None:
    answer = replace(answered("w", [1]), sentence_ends=None)
    with pytest.raises(ValueError, match="no sentence_ends"):
        Punctuation().trim(session(20, prefix=1), answer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RecentWords(words=0), "RecentWords needs words of at least 1, not 0"),
        (
            lambda: RecentWords(words=1, max_seconds=0),
            "RecentWords needs 0 <= min_seconds < max_seconds",
        ),
        (
            lambda: Punctuation(min_seconds=30),
            "Punctuation needs 0 <= min_seconds < max_seconds, not 30, 28.8",
        ),
        (lambda: Punctuation(max_tokens=0), "max_tokens of at least 1, not 0"),
        (
            lambda: Punctuation(keep="all"),
            "keep of Punctuation 'all'; choose one of: after, sentence",
        ),
        (
            lambda: Punctuation(cut="never"),
            "cut of Punctuation 'never'; choose one of: with_text, always",
        ),
        (
            lambda: RecentWords(words=1, rows="all"),
            "rows of RecentWords 'all'; choose one of: kept, hypothesis",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        make()


def test_a_history_that_may_keep_no_text_or_has_the_rows_of_a_hypothesis_reads_unwritten_text() -> (
    None
):
    rows = {"rows": "hypothesis"}
    assert not RecentWords(words=2).reads_unwritten
    assert RecentWords(words=2, **rows).reads_unwritten  # type: ignore[arg-type]
    assert not Punctuation().reads_unwritten
    assert Punctuation(keep="after", rows="hypothesis").reads_unwritten
