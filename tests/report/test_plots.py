"""Curves as files: both formats, systems and knobs in the SVG's text, gaps for missing scores."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from zoo.report.plots import plot_curves
from zoo.runs.rows.row import KnobValue, Row


def row(
    system: str,
    m: float | None,
    bleu: float,
    latency: float | None,
    *,
    kind: str = "system",
    flags=(),
) -> Row:
    scores = {"BLEU": bleu, "StreamLAAL": latency, "StreamLAAL_CA": latency and latency + 0.5}
    knob = None if m is None else KnobValue("m", m)
    return Row(
        system, knob, "minitalks", "tst", "en", "de", scores, {}, "i.log", kind=kind, flags=flags
    )


ROWS = (
    row("infinisst", 1, 70.0, 1.0),
    row("infinisst", 2, 80.0, 1.5),
    row("infinisst", 7, 81.0, None),
    row("other", 3, 60.0, 2.0, flags=("repeats itself",)),
    row("wait-k", 5, 95.0, 1.2, kind="oracle"),
    row("offline", None, 90.0, None, kind="ceiling"),
)


def texts(path: Path) -> list[str]:
    return [
        "".join(node.itertext()).strip()
        for node in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_png_and_svg_name_every_system_and_knob(tmp_path: Path) -> None:
    png, svg = plot_curves(ROWS, tmp_path / "curves")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert (png.name, svg.name) == ("curves.png", "curves.svg")
    words = texts(svg)
    for label in ("m=1", "m=2", "m=3 !", "m=5"):
        assert words.count(label) == 2, label  # once per panel
    assert "m=7" not in words  # its latency is not defined
    for name in ("infinisst, by m", "wait-k, by m", "offline", "! flagged"):
        assert words.count(name) == 1, name
    assert {"StreamLAAL (s)", "StreamLAAL_CA (s)", "BLEU"} <= set(words)


def test_same_rows_give_the_same_svg_and_no_rows_a_legal_file(tmp_path: Path) -> None:
    first, second = (plot_curves(ROWS, tmp_path / name)[1].read_text() for name in ("a", "b"))
    assert first == second
    assert plot_curves((), tmp_path / "none")[0].stat().st_size > 1000


def test_a_dollar_in_a_name_is_no_formula(tmp_path: Path) -> None:
    _, svg = plot_curves([row("a$_$b", 1, 70.0, 1.0)], tmp_path / "curves")
    assert "a$_$b, by m" in texts(svg)


def test_quality_can_be_another_score(tmp_path: Path) -> None:
    _, svg = plot_curves(ROWS, tmp_path / "chrf", quality="chrF")
    assert "chrF" in texts(svg)
    assert "m=1" not in texts(svg)


def test_speech_has_a_panel_of_its_own_where_some_was_recognised(tmp_path: Path) -> None:
    speech_rows = [
        replace(found, scores={**found.scores, "ASR_BLEU": bleu - 5, "StartOffset": offset})
        for found, bleu, offset in ((ROWS[0], 70.0, 1.4), (ROWS[1], 80.0, 2.1))
    ]
    words = texts(plot_curves((*speech_rows, *ROWS[3:]), tmp_path / "curves")[1])
    assert {"StartOffset (s)", "ASR_BLEU", "minitalks tst, en-de: speech"} <= set(words)
    assert [words.count(label) for label in ("m=1", "m=2", "m=3 !")] == [
        3,
        3,
        2,
    ]  # "other" has no speech
    assert "ASR_BLEU" not in texts(plot_curves(ROWS, tmp_path / "text")[1])


def test_intervals_are_error_bars(tmp_path: Path) -> None:
    def bars(rows: tuple[Row, ...]) -> int:
        return plot_curves(rows, tmp_path / "curves")[1].read_text().count("LineCollection")

    bounds = {"BLEU": (68.0, 72.0), "StreamLAAL": (0.9, 1.1)}
    measured = (replace(ROWS[0], intervals=bounds), *ROWS[1:])
    # BLEU in both panels, StreamLAAL in one
    assert bars(measured) == bars(ROWS) + 3
