"""Parts of the HTML report as escaped text: headline, tables, facts, JSON."""

import html
import json
from collections.abc import Iterable, Mapping, Sequence

from zoo.report.results import Row
from zoo.report.table import (
    COLUMNS,
    by_system,
    by_test_set,
    columns,
    knob_label,
    number,
    test_set_label,
)

KINDS = {
    "system": "",
    "oracle": "oracle, knows the references",
    "ceiling": "offline upper bound, no latency",
}
ORACLE = "The oracle never guesses: … replaces a word that depends on later source words."
DIGITS = {column.score: column.digits for column in COLUMNS}


def json_block(data: object) -> str:
    """JSON for a script element: ``<``, ``>``, ``&`` and U+2028/9 are escaped."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def headline(rows: Sequence[Row]) -> list[str]:
    """One sentence per test set: the unflagged system row of highest BLEU, and the upper bound."""
    sentences = []
    for key, group in by_test_set(rows).items():
        scored = [
            row
            for row in group
            if row.kind == "system" and not row.flags and row.scores.get("BLEU") is not None
        ]
        if not scored:
            sentences.append(f"{test_set_label(key)}: no system has a healthy row with a BLEU.")
            continue

        best = max(scored, key=lambda row: row.scores["BLEU"] or 0.0)
        at = f" at {knob_label(best)}" if best.knob else ""
        bounds = [number(row.scores.get("BLEU"), 1) for row in group if row.kind == "ceiling"]
        bleu = number(best.scores["BLEU"], 1)
        sentence = f"{test_set_label(key)}: {best.system}{at} reaches {bleu} BLEU"
        if best.scores.get("StreamLAAL") is not None:
            sentence += f" with a StreamLAAL of {number(best.scores['StreamLAAL'], 2)} s"
            if best.scores.get("StreamLAAL_CA") is not None:
                sentence += f" ({number(best.scores['StreamLAAL_CA'], 2)} s computation-aware)"

        sentences.append(
            sentence + (f"; the offline upper bound is {bounds[0]}." if bounds else ".")
        )
    return sentences


def facts(entries: Mapping[str, Iterable[str]], *, tag: str = "span") -> str:
    """Content of a ``dl``: every name with its texts.

    Args:
        entries: texts by name.
        tag: element around each text.
    """
    return "".join(
        f"<dt>{html.escape(name)}</dt>"
        + "".join(f"<dd><{tag}>{html.escape(text)}</{tag}></dd>" for text in texts)
        for name, texts in entries.items()
    )


def signatures(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Distinct signatures by score."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for score, signature in row.signatures.items():
            found.setdefault(score, {})[signature] = None
    return {score: list(texts) for score, texts in found.items()}


def tables(rows: Sequence[Row]) -> str:
    """One table per test set, systems before reference rows; ``data-row`` indexes ``rows``."""
    places = {id(row): place for place, row in enumerate(rows)}
    shown = "".join(
        _table(group, places, label=test_set_label(key)) for key, group in by_test_set(rows).items()
    )
    return shown + (
        f'<p class="note">{ORACLE}</p>' if any(row.kind == "oracle" for row in rows) else ""
    )


def _table(group: Sequence[Row], places: Mapping[int, int], *, label: str) -> str:
    first = [column.score for column in columns(group)]
    extra = sorted({score for row in group for score in row.scores} - set(first))
    scores = [*((score, "") for score in first), *((score, ' class="extra"') for score in extra)]
    heads = "".join(
        f'<th scope="col"{style}><button type="button" data-score="{html.escape(score)}">'
        f"{_breakable(score)}</button></th>"
        for score, style in scores
    )
    bodies = ""
    for kinds in (("system",), ("oracle", "ceiling")):
        lines = [
            _line(row, places[id(row)], scores, first=row is members[0])
            for members in by_system([row for row in group if row.kind in kinds])
            for row in members
        ]
        bodies += f'<tbody class="{kinds[0]}">{"".join(lines)}</tbody>' if lines else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Scores, {html.escape(label)}">'
        f'<table class="scores"><caption>{html.escape(label)}</caption><thead><tr>'
        '<th scope="col"><button type="button" data-score="">system</button></th>'
        f"{heads}</tr></thead>"
        f"{bodies}</table></div>"
    )


def _line(row: Row, place: int, scores: Iterable[tuple[str, str]], *, first: bool) -> str:
    cells = "".join(
        f'<td{style} data-value="{_value(row, score)}">'
        f"{number(row.scores.get(score), DIGITS.get(score, 2))}</td>"
        for score, style in scores
    )
    kind = "first" if first else ""
    return f'<tr data-row="{place}" class="{kind}">{_row_head(row, place)}{cells}</tr>'


def _row_head(row: Row, place: int) -> str:
    note = f'<small class="kind">{KINDS[row.kind]}</small>' if KINDS[row.kind] else ""
    flags = "".join(
        f'<small class="flag">Flagged: {html.escape(flag)}</small>' for flag in row.flags
    )
    knob = f" <b>{html.escape(knob_label(row))}</b>" if row.knob else ""
    link = f'<a href="#talks" data-open="{place}">{html.escape(row.system)}{knob}</a>'
    return f'<th scope="row">{link}{note}{flags}</th>'


def _breakable(score: str) -> str:
    return (
        html.escape(score)
        .replace("_", "<wbr>_")
        .replace("Stream", "Stream<wbr>")
        .replace("Long", "Long<wbr>")
    )


def _value(row: Row, score: str) -> str:
    value = row.scores.get(score)
    return "" if value is None or value != value else repr(float(value))
