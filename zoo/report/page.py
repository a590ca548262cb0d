"""``report.html``: one file with everything in it, for a browser without a network. Knows no metric and no model."""

import base64
import html
import io
import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

import soundfile

from zoo import audio
from zoo.data.talks import Talk
from zoo.report.payload import ReportSegment, ReportStream, payload, talks_in_order
from zoo.report.results import Row
from zoo.report.table import COLUMNS, by_system, by_test_set, knob_label, number, test_set_label
from zoo.types import SAMPLE_RATE

__all__ = ["ReportSegment", "ReportStream", "write_report"]

SCRIPTS = ("base", "scores", "curves", "clock", "layout", "timeline", "overview", "segments", "main")
MAX_BYTES = 15_000_000
_COMPRESSION = 0.9  # libsndfile's scale; MP3 at a constant 24 kbit/s for 16 kHz speech (constant: seeking is exact)
_AUDIO_BYTES_PER_SECOND = 24_000 / 8 * 4 / 3  # in base64


def write_report(
    path: Path,
    *,
    rows: Sequence[Row],
    streams: Sequence[ReportStream],
    title: str,
    context: Mapping[str, str],
    audio_talks: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> int:
    """Write the page and return its size in bytes.

    context: what a reader must know of the run (command, commit, corpus hash, convention, machine, date), shown as
    given. The first ``audio_talks`` talks (None: all) carry their audio, as long as the page stays under
    ``max_bytes``; the page says which were left out. Raises ZooError for audio that cannot be read.
    """
    data = payload(rows, streams)
    talks = talks_in_order(streams)
    budget = max_bytes - len(_page(rows, title=title, context=context, data=data, sounds=()))
    sounds = _sounds(talks if audio_talks is None else talks[:audio_talks], budget=budget)
    for entry, place in zip(data["talks"], range(len(talks)), strict=True):
        entry["audio"] = place in sounds
    blocks = [f'<script type="text/plain" id="audio-{place}">{sound}</script>\n' for place, sound in sounds.items()]
    document = _page(rows, title=title, context=context, data=data, sounds=blocks)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(document)
    os.replace(partial, path)
    return len(document)


def _page(rows: Sequence[Row], *, title: str, context: Mapping[str, str], data: object, sounds: Sequence[str]) -> bytes:
    assets = files("zoo.report") / "assets"
    script = "\n".join((assets / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    document = Template((assets / "report.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        style=(assets / "page.css").read_text(encoding="utf-8") + (assets / "talk.css").read_text(encoding="utf-8"),
        headline="".join(f"<p>{html.escape(line)}</p>" for line in headline(rows)),
        context="".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(context[name])}</dd>" for name in context),
        tables="".join(_table(group, rows, label=test_set_label(key)) for key, group in by_test_set(rows).items()),
        signatures=_signatures(rows),
        data=json_block(data),
        audio="".join(sounds),
        script=script,
    )
    return document.encode("utf-8")


def json_block(data: object) -> str:
    """JSON that can stand inside a script element whatever the texts say: no ``<``, ``>``, ``&`` and no U+2028/9."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def headline(rows: Sequence[Row]) -> list[str]:
    """One sentence per test set: the healthy system row with the highest BLEU, and the offline upper bound."""
    sentences = []
    for key, group in by_test_set(rows).items():
        scored = [row for row in group if row.kind == "system" and not row.flags and row.scores.get("BLEU") is not None]
        if not scored:
            sentences.append(f"{test_set_label(key)}: no system has a healthy row with a BLEU.")
            continue
        best = max(scored, key=lambda row: row.scores["BLEU"] or 0.0)
        at = f" at {knob_label(best)}" if best.knob else ""
        bounds = [number(row.scores.get("BLEU"), 1) for row in group if row.kind == "ceiling"]
        sentences.append(
            f"{test_set_label(key)}: {best.system}{at} reaches {number(best.scores.get('BLEU'), 1)} BLEU with a StreamLAAL"
            f" of {number(best.scores.get('StreamLAAL'), 2)} s ({number(best.scores.get('StreamLAAL_CA'), 2)} s"
            f" computation-aware)" + (f"; the offline upper bound is {bounds[0]}." if bounds else ".")
        )
    return sentences


def _sounds(talks: Sequence[Talk], *, budget: float) -> dict[int, str]:
    sounds: dict[int, str] = {}
    for place, talk in enumerate(talks):
        if talk.duration * _AUDIO_BYTES_PER_SECOND > budget:
            continue
        encoded = _mp3(talk)
        if len(encoded) + 100 <= budget:
            sounds[place] = encoded
            budget -= len(encoded) + 100
    return sounds


def _mp3(talk: Talk) -> str:
    samples = audio.load(talk.audio, start=talk.offset, duration=talk.duration).numpy()
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, SAMPLE_RATE, format="MP3", bitrate_mode="CONSTANT", compression_level=_COMPRESSION)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _table(group: Sequence[Row], rows: Sequence[Row], *, label: str) -> str:
    named = [column.score for column in COLUMNS]
    extra = sorted({score for row in group for score in row.scores} - set(named))
    digits = {column.score: column.digits for column in COLUMNS}
    heads = "".join(
        f'<th scope="col"{_extra(score in extra)}><button type="button" data-score="{html.escape(score)}">'
        f"{_breakable(score)}</button></th>"
        for score in named + extra
    )
    bodies = ""
    for kinds in (("system",), ("oracle", "ceiling")):
        lines = ""
        for members in by_system([row for row in group if row.kind in kinds]):
            for row in members:
                first = " first" if row is members[0] else ""
                place = next(index for index, other in enumerate(rows) if other is row)
                cells = "".join(
                    f'<td{_extra(score in extra)} data-value="{_value(row, score)}">'
                    f"{number(row.scores.get(score), digits.get(score, 2))}</td>"
                    for score in named + extra
                )
                lines += f'<tr data-row="{place}" class="{row.kind}{first}">{_row_head(row, place)}{cells}</tr>'
        bodies += f'<tbody class="{kinds[0]}">{lines}</tbody>' if lines else ""
    first = '<th scope="col"><button type="button" data-score="">system</button></th>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Scores, {html.escape(label)}"><table class="scores">'
        f"<caption>{html.escape(label)}</caption><thead><tr>{first}{heads}</tr></thead>{bodies}</table></div>"
    )


def _row_head(row: Row, place: int) -> str:
    kinds = {"system": "", "oracle": "oracle, knows the references", "ceiling": "offline upper bound, no latency"}
    note = f'<small class="kind">{kinds[row.kind]}</small>' if kinds[row.kind] else ""
    flags = "".join(f'<small class="flag">Flagged: {html.escape(flag)}</small>' for flag in row.flags)
    knob = f" <b>{html.escape(knob_label(row))}</b>" if row.knob else ""
    return f'<th scope="row"><a href="#talks" data-open="{place}">{html.escape(row.system)}{knob}</a>{note}{flags}</th>'


def _extra(is_extra: bool) -> str:
    return ' class="extra"' if is_extra else ""


def _breakable(score: str) -> str:
    return html.escape(score).replace("_", "<wbr>_").replace("Stream", "Stream<wbr>").replace("Long", "Long<wbr>")


def _value(row: Row, score: str) -> str:
    value = row.scores.get(score)
    return "" if value is None or value != value else repr(float(value))


def _signatures(rows: Sequence[Row]) -> str:
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for score, signature in row.signatures.items():
            found.setdefault(score, {})[signature] = None
    return "".join(
        f"<dt>{html.escape(score)}</dt>" + "".join(f"<dd><code>{html.escape(text)}</code></dd>" for text in texts)
        for score, texts in found.items()
    )
