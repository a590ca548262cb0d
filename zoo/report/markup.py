"""Parts of the HTML report as escaped text: headline, tables, lists of facts, JSON."""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence

from zoo.report.table import cell, number, significance_notes
from zoo.results.groups import by_system, by_test_set, test_set_label
from zoo.results.names import COMPUTATION_AWARE, columns, find_entry, main_score
from zoo.results.row import Row

# Note beside the name of a row, by the kind of the row.
KINDS = {
    "system": "",
    "oracle": "oracle, emits the references",
    "ceiling": "whole segments, no latency",
}
OFFLINE = (
    "An offline row receives each reference segment as a whole before it decodes. It is no upper "
    "bound: a system trained on whole talks may be better on them."
)
SEGMENTED = "receives the reference segments"
ORACLE = "The oracle never guesses: … replaces a word that depends on later source words."


def json_block(data: object) -> str:
    """Return JSON for a script element; ``<``, ``>``, ``&``, U+2028 and U+2029 are escaped."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


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


def facts(entries: Mapping[str, Iterable[str]], *, tag: str = "span") -> str:
    """Return the content of a description list (``dl``).

    Args:
        entries: texts by name; each name is a term, each text is a description.
        tag: element around each text.
    """
    parts = []
    for name, texts in entries.items():
        parts.append(f"<dt>{html.escape(name)}</dt>")
        parts += [f"<dd><{tag}>{html.escape(text)}</{tag}></dd>" for text in texts]
    return "".join(parts)


def signatures(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the distinct signatures of each score, by name of the score."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for score, signature in row.signatures.items():
            found.setdefault(score, {})[signature] = None
    return {score: list(texts) for score, texts in found.items()}


def tables(rows: Sequence[Row]) -> str:
    """Return one HTML table per test set.

    The page's script finds the row of a line by ``data-row``, the index of the row in ``rows``.
    """
    parts = []
    for key, group in by_test_set(rows).items():
        parts.append(_table(group, rows, label=test_set_label(key)))
        parts += [f'<p class="note">{html.escape(note)}</p>' for note in significance_notes(group)]
    if any(row.kind == "oracle" for row in rows):
        parts.append(f'<p class="note">{ORACLE}</p>')
    if any(row.kind == "ceiling" for row in rows):
        parts.append(f'<p class="note">{OFFLINE}</p>')
    return "".join(parts)


def _table(group: Sequence[Row], rows: Sequence[Row], *, label: str) -> str:
    """Return the HTML table of one test set: systems, those with reference segments, references.

    Args:
        group: rows of the test set.
        rows: rows of the report.
        label: caption.
    """
    score_columns = _score_columns(group)
    heads = "".join(
        f'<th scope="col"{attributes}><button type="button" data-score="{html.escape(score)}">'
        f"{_breakable(score)}</button></th>"
        for score, attributes in score_columns
    )
    systems = [row for row in group if row.kind == "system"]
    streamed = [row for row in systems if not row.has_reference_segments]
    segmented = [row for row in systems if row.has_reference_segments]
    references = [row for row in group if row.kind != "system"]

    bodies = _body("system", streamed, rows, score_columns)
    bodies += _body("segmented", segmented, rows, score_columns)
    bodies += _body("oracle", references, rows, score_columns)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Scores, {html.escape(label)}">'
        f'<table class="scores"><caption>{html.escape(label)}</caption><thead><tr>'
        '<th scope="col"><button type="button" data-score="">system</button></th>'
        f"{heads}</tr></thead>"
        f"{bodies}</table></div>"
    )


def _score_columns(group: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the name of the score of each column and the HTML attributes of its cells.

    The page hides the columns of class ``extra`` until the reader asks for all scores.
    """
    main_scores = [column.score for column in columns(group)]
    other_scores = sorted({score for row in group for score in row.scores} - set(main_scores))
    found = [(score, "") for score in main_scores]
    return found + [(score, ' class="extra"') for score in other_scores]


def _body(
    style: str,
    group: Sequence[Row],
    rows: Sequence[Row],
    score_columns: Sequence[tuple[str, str]],
) -> str:
    """Return the ``tbody`` of some rows of a table; empty without rows.

    Args:
        style: CSS class of the body.
        group: rows of the body.
        rows: rows of the report.
        score_columns: result of ``_score_columns``.
    """
    lines = []
    for rows_of_system in by_system(group):
        for number_in_system, row in enumerate(rows_of_system):
            place = next(place for place, other in enumerate(rows) if other is row)
            lines.append(_line(row, place, score_columns, is_first=number_in_system == 0))
    return f'<tbody class="{style}">{"".join(lines)}</tbody>' if lines else ""


def _line(row: Row, place: int, score_columns: Iterable[tuple[str, str]], *, is_first: bool) -> str:
    """Return the ``tr`` of a row.

    Args:
        row: row of results.
        place: index of the row in the report.
        score_columns: result of ``_score_columns``.
        is_first: whether the row is the first row of its system; a rule is drawn above it.
    """
    cells = "".join(
        f'<td{attributes} data-value="{_value(row, score)}">{_score(row, score)}</td>'
        for score, attributes in score_columns
    )
    style = "first" if is_first else ""
    return f'<tr data-row="{place}" class="{style}">{_row_head(row, place)}{cells}</tr>'


def _score(row: Row, score: str) -> str:
    """Return the content of the cell of a score: its value, and half of its interval below."""
    value, _, interval = cell(row, find_entry(score).column()).partition(" ")
    return value + (f"<small>{interval.strip()}</small>" if interval else "")


def _row_head(row: Row, place: int) -> str:
    """Return the first cell of a row: a link to the talks, the kind of the row and its flags."""
    kind = SEGMENTED if row.has_reference_segments else KINDS[row.kind]
    note = f'<small class="kind">{kind}</small>' if kind else ""
    flags = "".join(
        f'<small class="flag">Flagged: {html.escape(flag)}</small>' for flag in row.flags
    )
    knob = f" <b>{html.escape(row.knob_label)}</b>" if row.knob else ""
    link = f'<a href="#talks" data-open="{place}">{html.escape(row.system)}{knob}</a>'
    return f'<th scope="row">{link}{note}{flags}</th>'


def _breakable(score: str) -> str:
    """Return the name of a score with places (``wbr``) where a browser may break the line."""
    return (
        html.escape(score)
        .replace("_", "<wbr>_")
        .replace("Stream", "Stream<wbr>")
        .replace("Long", "Long<wbr>")
    )


def _value(row: Row, score: str) -> str:
    """Return a score in full precision, by which the page sorts; empty if it is not defined."""
    value = row.scores.get(score)
    return "" if value is None or math.isnan(value) else repr(float(value))
