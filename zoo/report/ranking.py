"""The ranking of IWSLT: systems by quality within each latency regime."""

from collections.abc import Sequence

from zoo.report.table import DASH, cell
from zoo.report.text_table import TextTable
from zoo.runs.rows.groups import by_test_set, test_set_label
from zoo.runs.rows.names import find_entry, main_score
from zoo.runs.rows.regimes import LATENCY, LIMITS, OUTSIDE, REGIMES, is_development, set_by
from zoo.runs.rows.row import Row

QUALITY = "XCOMET_XL"  # by which the campaign ranks
OTHERS = ("BLEU", "chrF")  # qualities that are listed too
LATENCIES = (LATENCY, "StreamLAAL")


def ranking_tables(rows: Sequence[Row]) -> list[TextTable]:
    """Return a table for each test set and regime that has systems, best first.

    Development talks have tables only where no other talks of the same languages are among the
    rows. Systems that receive the reference segments, which no live stream has, are left out.

    Args:
        rows: rows of results with their regimes (``zoo.runs.rows.regimes``).
    """
    ranked = [row for row in rows if row.settings.regime and not row.has_reference_segments]
    tested = {_languages(row) for row in ranked if not is_development(row)}
    shown = [row for row in ranked if not is_development(row) or _languages(row) not in tested]
    tables: list[TextTable] = []
    for group in by_test_set(shown).values():
        for regime in REGIMES:
            inside = [row for row in group if row.settings.regime == regime]
            if inside:
                tables.append(_table(inside, rows, regime))
    return tables


def _languages(row: Row) -> tuple[str, str]:
    """Return the direction of a row."""
    return row.source_language, row.target_language


def _table(rows: Sequence[Row], every: Sequence[Row], regime: str) -> TextTable:
    """Return the table of the systems of one test set and regime.

    Args:
        rows: rows of the test set in the regime.
        every: all rows, also those on development talks.
        regime: the regime.
    """
    has_comet = all(row.scores.get(QUALITY) is not None for row in rows)
    quality = QUALITY if has_comet else main_score("quality")
    best_first = sorted(rows, key=lambda row: -(row.scores.get(quality) or 0.0))
    names = dict.fromkeys([quality, *OTHERS])
    scored = [find_entry(name, rows).column() for name in (*names, *LATENCIES)]
    setting = find_entry(LATENCY).column()
    lines = []
    for place, row in enumerate(best_first, start=1):
        basis = set_by(row, every)
        basis_text = DASH if basis is None else cell(basis, setting).strip()
        scores = [cell(row, column).strip() for column in scored]
        rank = DASH if regime == OUTSIDE else str(place)
        lines.append((row.system, rank, row.knob_label, *scores, basis_text))
    headings = [f"{one.score} (s)" if one.unit == "s" else one.score for one in scored]
    return TextTable(
        f"{test_set_label(rows[0].test_set)}: {_title(regime)}",
        ("system", "rank", "setting", *headings, f"dev {LATENCY} (s)"),
        lines,
        _notes(quality, lines, is_ranked=regime != OUTSIDE),
    )


def _title(regime: str) -> str:
    """Return the regime with its limits."""
    if regime == OUTSIDE:
        return f"no regime ({LATENCY} above {max(LIMITS.values()):g} s)"
    limits, place = [0.0, *LIMITS.values()], REGIMES.index(regime)
    return f"regime {regime} ({LATENCY} {limits[place]:g} to {limits[place + 1]:g} s)"


def _notes(quality: str, lines: Sequence[tuple[str, ...]], *, is_ranked: bool) -> list[str]:
    """Return by what a table is ordered, and whose regime its own talks set."""
    order = "ranked by" if is_ranked else "not ranked; ordered by"
    missing = f"; the campaign ranks by {QUALITY}, which these rows do not have"
    notes = [f"{order} {quality}{'' if quality == QUALITY else missing}"]
    if any(line[-1] == DASH for line in lines):
        notes.append(
            "regime of these talks themselves where there is no row on development talks, which "
            "set it in the campaign"
        )
    return notes
