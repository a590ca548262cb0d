"""What the HTML report shows, as plain data: the headline, the tables of scores, signatures."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zoo.report.table import cell, number, significance_notes
from zoo.runs.rows.groups import by_system, by_test_set, test_set_label
from zoo.runs.rows.names import COMPUTATION_AWARE, REGIME, Entry, columns, find_entry, main_score
from zoo.runs.rows.regimes import REGIMES
from zoo.runs.rows.row import Row


@dataclass(frozen=True, slots=True)
class Cell:
    """Score of a row.

    Attributes:
        value: score in full precision, by which the page sorts; empty if it is not defined.
        text: score with its usual number of decimals.
        interval: half of its 95 % interval, and the star of a significant difference, or empty.
    """

    value: str
    text: str
    interval: str


@dataclass(frozen=True, slots=True)
class Line:
    """Row of a table.

    Attributes:
        row: row of results.
        place: index of the row in the report.
        is_first: whether the row is the first row of its system; a rule is drawn above it.
        cells: one cell per column.
        sharers: systems whose offline row this is, besides the one that it is named after.
    """

    row: Row
    place: int
    is_first: bool
    cells: list[Cell]
    sharers: list[str]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Table of the scores of one test set.

    Attributes:
        label: the test set.
        scores: which values of the score of each column are better, by name; empty if not known.
        main: number of columns, from the first on, that the page shows before the reader asks for
            all scores.
        bodies: lines by CSS class of their part of the table.
        notes: what the marks in the cells mean.
    """

    label: str
    scores: dict[str, str]
    main: int
    bodies: dict[str, list[Line]]
    notes: list[str]


def headline(rows: Sequence[Row]) -> list[str]:
    """Return one sentence per test set: the best system by BLEU, and its offline row.

    Only system rows without flags are considered, and of these, those of systems that receive the
    reference segments only if there are no others.
    """
    quality, latency = main_score("quality"), main_score("latency")
    aware = latency + COMPUTATION_AWARE
    sentences = []
    for key, group in by_test_set(rows).items():
        scored = [
            row
            for row in group
            if row.kind == "system" and not row.flags and row.scores.get(quality) is not None
        ]
        # Systems that receive the reference segments are compared with each other only.
        scored = [row for row in scored if not row.has_reference_segments] or scored
        if not scored:
            missing = f"no system has a row with a {quality} score and without flags"
            if not any(row.has_references for row in group):
                missing = "the talks have no references, which scores of quality need"
            sentences.append(f"{test_set_label(key)}: {missing}.")
            continue

        best = max(scored, key=lambda row: row.scores[quality] or 0.0)
        system = f"{best.system} at {best.knob_label}" if best.knob else best.system
        value = _shown(best, quality)
        sentence = f"{test_set_label(key)}: {system} reaches {value} {quality}"
        if best.scores.get(latency) is not None:
            sentence += f" with a {latency} of {_shown(best, latency)} s"
            if best.scores.get(aware) is not None:
                sentence += f" ({_shown(best, aware)} s computation-aware)"

        offline = offline_row(best, group)
        if offline is not None:
            sentence += f"; offline, segment by segment, {_shown(offline, quality)}"
        sentences.append(f"{sentence}.")
    return sentences


def _shown(row: Row, score: str) -> str:
    """Return a score of a row with its usual number of decimals."""
    return number(row.scores[score], find_entry(score).digits)


def offline_row(row: Row, group: Iterable[Row]) -> Row | None:
    """Return the offline row of a system, or of another system with the same weights.

    Systems with the same model share one offline row, which has the name of the first of them.
    """
    ceilings = (other for other in group if other.kind == "ceiling")
    found = [other for other in ceilings if other.scores.get(main_score("quality")) is not None]
    weights = row.settings.weights
    for other in found:
        if other.system == f"{row.system} offline":
            return other
    same = [other for other in found if weights and other.settings.weights == weights]
    # Rows of other search settings, such as beams, have the same weights
    return same[0] if len(same) == 1 else None


def sharers(offline: Row, group: Iterable[Row]) -> list[str]:
    """Return the systems whose offline row this is, without the one that it is named after.

    Args:
        offline: a row; only an offline row has such systems.
        group: rows of its test set.
    """
    rows = list(group)
    systems = (row for row in rows if offline.kind == "ceiling" and row.kind == "system")
    names = dict.fromkeys(row.system for row in systems if offline_row(row, rows) is offline)
    return [name for name in names if f"{name} offline" != offline.system]


def signatures(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the distinct signatures of each score, by name of the score."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for score, signature in row.signatures.items():
            found.setdefault(score, {})[signature] = None
    return {score: list(texts) for score, texts in found.items()}


def score_tables(rows: Sequence[Row]) -> list[ScoreTable]:
    """Return the table of each test set: systems, those with reference segments, references."""
    tables = []
    for key, group in by_test_set(rows).items():
        main = [column.score for column in columns(group)]
        others = sorted({score for row in group for score in row.scores} - set(main))
        entries = [find_entry(score, rows) for score in [*main, *others]]
        scores: dict[str, str] = {entry.name: entry.better or "" for entry in entries}
        bodies: dict[str, list[Line]] = {}
        for rows_of_system in by_system(group):
            for row in rows_of_system:
                style = "segmented" if row.has_reference_segments else "system"
                body = bodies.setdefault(style if row.kind == "system" else "oracle", [])
                place = next(place for place, other in enumerate(rows) if other is row)
                cells = [_cell(row, entry) for entry in entries]
                is_first = row is rows_of_system[0]
                body.append(Line(row, place, is_first, cells, sharers(row, group)))
        notes = significance_notes(group)
        tables.append(ScoreTable(test_set_label(key), scores, len(main), bodies, notes))
    return tables


def _cell(row: Row, entry: Entry) -> Cell:
    """Return the cell of a score of a row."""
    value = row.scores.get(entry.name)
    text, _, interval = cell(row, entry.column()).partition(" ")
    if entry.name == REGIME and row.settings.regime:
        value = REGIMES.index(row.settings.regime)  # the page sorts by numbers
    full = "" if value is None or math.isnan(value) else repr(float(value))
    return Cell(full, text, interval.strip())
