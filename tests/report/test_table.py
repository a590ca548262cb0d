"""The terminal table: order, dashes, flags, widths."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from zoo.report.table import number, print_table, score_line
from zoo.runs.rows.groups import by_system
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.settings import MetricFacts, RowSettings


def row(
    system: str,
    m: float | None = None,
    *,
    kind: str = "system",
    flags: tuple[str, ...] = (),
    **scores,
) -> Row:
    knob = None if m is None else KnobValue("m", m)
    full = {
        "BLEU": 80.04,
        "chrF": 88.8,
        "StreamLAAL": 1.234,
        "StreamLAAL_CA": 1.9,
        "LongYAAL": 1.1,
        "RTF": 0.25,
    }
    return Row(
        system,
        knob,
        "minitalks",
        "tst",
        "en",
        "de",
        full | scores,
        {},
        "i.log",
        kind=kind,
        flags=flags,
    )


ROWS = (
    row("offline", kind="ceiling", BLEU=91.0, StreamLAAL=None),
    row("infinisst", 4, BLEU=85.0),
    row("infinisst", 1, flags=("writes nothing before the source has ended",)),
    row("gold", 3, kind="oracle"),
)


def printed(width: int, rows: tuple[Row, ...] = ROWS) -> str:
    stream = StringIO()
    print_table(rows, console=Console(file=stream, width=width))
    return stream.getvalue()


def test_order_is_systems_by_knob_then_oracle_then_ceiling() -> None:
    names = [f"{r.system} {r.knob_label}".strip() for group in by_system(ROWS) for r in group]
    assert names == ["infinisst m=1", "infinisst m=4", "gold m=3", "offline"]


def test_terminal_at_100_columns_shows_every_score_and_reason() -> None:
    text = printed(100)
    assert max(map(len, text.splitlines())) <= 100
    line = next(line for line in text.splitlines() if "m=1" in line)
    assert line.split() == [
        "infinisst",
        "m=1",
        "80.0",
        "88.8",
        "1.23",
        "1.90",
        "1.10",
        "0.25",
        "!",
        "1",
    ]
    assert "1 infinisst m=1: writes nothing before the source has ended" in text
    ceiling = next(line for line in text.splitlines() if line.strip().startswith("offline"))
    assert ceiling.split() == ["offline", "91.0", "88.8", "–", "1.90", "1.10", "0.25"]


@pytest.mark.parametrize("width", [80, 60, 45])
def test_narrow_terminal_keeps_quality_latency_and_flags(width: int) -> None:
    lines = printed(width).splitlines()
    assert max(map(len, lines)) <= width
    line = next(line for line in lines if "m=1" in line)
    for cell in ("infinisst", "80.0", "1.23", "! 1"):
        assert cell in line
    assert ("1.90" in line) == (width >= 52)


def test_streams_of_single_sentences_have_the_latency_of_simuleval() -> None:
    scores = {"LAAL": 2.22, "LAAL_CA": 3.33, "AL": 4.44}
    sentence = replace(row("streamuni", 3, **scores), settings=RowSettings(view="segments"))
    text = printed(100, (sentence,))
    assert all(value in text for value in ("2.22", "3.33", "4.44"))
    assert "Stream" not in text
    mixed = printed(100, (sentence, row("infinisst", 3)))
    assert "Stream" in mixed
    assert "2.22" not in mixed


def test_sentences_of_a_tool_with_milliseconds_are_shown_in_them() -> None:
    scores = {"AL": 0.9123456, "LAAL": 1.25, "AP": 0.71249, "DAL": 1.5, "ATD": 0.8, "LAAL_CA": None}
    sentence = replace(
        row("theirs", **scores), settings=RowSettings(view="talks", rules="simuleval")
    )
    text = printed(100, (sentence,))
    assert "(times in milliseconds)" in text
    assert "Stream" not in text
    line = next(line for line in text.splitlines() if "theirs" in line)
    wanted = ["912.346", "1250.000", "–", "0.712", "1500.000", "800.000", "0.25"]
    assert line.split() == ["theirs", "80.0", "88.8", *wanted]

    zoo = printed(100, (replace(sentence, settings=RowSettings(view="talks", rules="zoo")),))
    assert "(times in seconds)" in zoo
    assert "0.91" in zoo


def test_names_are_text_and_no_markup() -> None:
    """rich would swallow ``[dim]`` and stumble over ``[/]``."""
    text = printed(100, (row("cascade [dim]", 2), row("a[/]b")))
    assert "cascade [dim]" in text
    assert "a[/]b" in text


def test_the_line_of_a_row_has_its_main_scores() -> None:
    assert (
        score_line(ROWS[1]) == "infinisst m=4: BLEU 85.0, StreamLAAL 1.23 s, StreamLAAL_CA 1.90 s"
    )
    assert score_line(ROWS[0]).startswith("offline: BLEU 91.0, StreamLAAL_CA")  # None is left out
    assert score_line(replace(ROWS[0], scores={})) == "offline: no scores"


def test_systems_follow_each_other_without_blank_rows() -> None:
    lines = printed(100).splitlines()
    assert all(line.strip() for line in lines)
    assert len(lines) == 1 + 2 + len(ROWS) + 1  # title, headings, rows, one flag


def test_systems_that_receive_the_reference_segments_follow_the_others() -> None:
    informed = replace(row("alignatt", 2), settings=RowSettings(reference_segments=True))
    lines = printed(100, (informed, *ROWS)).splitlines()
    first = [line.split()[0] for line in lines[3:]]
    assert first[:5] == ["infinisst", "m=4", "alignatt", "gold", "offline"]
    assert "  with the reference segments: alignatt" in [line.rstrip() for line in lines]
    assert "reference segments" not in printed(100)


def test_a_long_name_is_shortened_on_one_line_and_listed_below() -> None:
    names = [f"infinisst backbone.window.size={size} history=recent_words" for size in (100, 200)]
    lines = printed(100, tuple(row(name, 2) for name in names)).splitlines()
    assert max(map(len, lines)) <= 100
    assert sum("m=2" in line for line in lines) == 2
    (first,) = [line for line in lines if line.startswith(" infinisst") and "80.0" in line][:1]
    assert "… #1 " in first
    assert [line.strip() for line in lines if line.startswith("  #")] == [
        f"#{number} {name}" for number, name in enumerate(names, start=1)
    ]
    assert all(value in first for value in ("88.8", "1.23", "1.90", "1.10", "0.25"))


def test_number_writes_a_dash_for_what_is_not_defined() -> None:
    assert [number(value, 1) for value in (None, float("nan"), float("inf"), 0.0)] == [
        "–",
        "–",
        "–",
        "0.0",
    ]


def test_test_sets_are_never_mixed() -> None:
    other = Row("infinisst", None, "mustc", "tst", "en", "es", {"BLEU": 30.0}, {}, "j.log")
    text = printed(100, (*ROWS, other))
    places = [
        text.index(found)
        for found in ("minitalks tst, en-de", "offline", "mustc tst, en-es", "30.0")
    ]
    assert places == sorted(places)


def test_speech_columns_appear_only_for_speech_output() -> None:
    speech_row = row("simulu", 4, ASR_BLEU=71.26, ASR_WER=2.5, StartOffset=1.875)
    text = printed(100, (*ROWS, speech_row))
    assert max(map(len, text.splitlines())) <= 100
    line = next(line for line in text.splitlines() if "simulu" in line)
    assert line.split() == [
        "simulu",
        "m=4",
        "80.0",
        "88.8",
        "71.3",
        "2.5",
        "1.23",
        "1.90",
        "1.10",
        "1.88",
        "0.25",
    ]
    assert "ASR" not in printed(100)
    without_asr = printed(
        100, (row("simulu", 4, StartOffset=1.875, SpeechOverlap=9.0),)
    )  # no recogniser was at hand
    assert "ASR" not in without_asr
    assert "1.88" in without_asr
    narrow = next(line for line in printed(60, (speech_row,)).splitlines() if "simulu" in line)
    assert narrow.split() == ["simulu", "m=4", "80.0", "71.3", "1.23", "1.90", "1.88", "0.25"]


def test_intervals_and_stars_fit_the_terminal() -> None:
    intervals = dict.fromkeys(("BLEU", "chrF", "StreamLAAL", "StreamLAAL_CA"), (0.9, 1.3))
    p_values = {"bootstrap": {"BLEU": 0.01, "chrF": 0.2}, "randomisation": {"BLEU": 0.04}}
    settings = RowSettings(resamples=1000, baseline="infinisst m=1")
    rows = tuple(
        replace(one, intervals=intervals, p_values=p_values, settings=settings) for one in ROWS[1:3]
    )
    for width in (100, 80, 60):
        text = printed(width, rows)
        assert max(map(len, text.splitlines())) <= width
        assert "85.0 ±0.2*" in text
    line = next(line for line in printed(100, rows).splitlines() if "m=4" in line)
    assert line.split()[1:7] == ["85.0", "±0.2*", "88.8", "±0.2", "1.23", "±0.20"]
    assert "* p < 0.05 against infinisst m=1 (bootstrap and randomisation)" in printed(100, rows)


def test_columns_that_are_too_wide_are_left_out_whole() -> None:
    own = {f"AVeryLongNameOfAScore{number}": 1.25 for number in range(3)}
    facts = MetricFacts(unit="s", digits=2, better="lower", axis="latency")
    settings = RowSettings(metrics=dict.fromkeys(own, facts))
    wide = tuple(replace(one, scores=one.scores | own, settings=settings) for one in ROWS)
    text = printed(80, wide)
    assert "80.0" in text
    table, _, names = text.partition("not shown at this width: ")
    assert "…" not in table
    assert names.startswith("chrF, ")
    assert "not shown" not in printed(100)
