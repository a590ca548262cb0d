"""Writes ``report.html``, one file that a browser shows without a network.

Source audio and target speech are part of the file as far as its largest size allows; target speech
that does not fit is played from wave files beside the logs.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from zoo.base.disk.files import write_bytes
from zoo.base.talks import Talk
from zoo.report.contents import headline, score_tables, signatures
from zoo.report.matched import matched_tables
from zoo.report.palette import STYLES
from zoo.report.payload import payload, talks_in_order
from zoo.report.ranking import ranking_tables
from zoo.report.ratings import rating_tables
from zoo.report.render import json_block, render
from zoo.report.sounds import Sound, source_sounds, speech_sounds
from zoo.report.stages import stage_bars
from zoo.report.text_table import TextTable
from zoo.runs.rows.matched import MatchedCurve
from zoo.runs.rows.ratings import RatedRow
from zoo.runs.rows.row import Row
from zoo.runs.rows.streams import ReportStream
from zoo.streaming.stages import STAGES

MAX_BYTES = 15_000_000


def write_report(
    path: Path,
    *,
    rows: Sequence[Row],
    streams: Sequence[ReportStream],
    title: str,
    context: Mapping[str, str],
    matched: Sequence[MatchedCurve] = (),
    ranking: bool = False,
    rated: Sequence[RatedRow] = (),
    audio_talks: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> int:
    """Write the report and return its size in bytes.

    Args:
        path: path of the HTML file; the rows' logs are relative to its folder.
        rows: rows of results.
        streams: streams of the rows.
        title: heading.
        context: provenance of the run by name (command, commit, machine, ...).
        matched: the systems at equal latency.
        ranking: whether to show the systems in the order of their quality within each regime.
        rated: rows that humans have rated.
        audio_talks: number of talks, from the first talk on, whose audio is included (None: all).
        max_bytes: maximum size of the file. Sounds that do not fit are left out.

    Raises:
        ZooError: audio cannot be read.
    """
    data = payload(rows, streams)
    ranked = ranking_tables(rows) if ranking else []
    tables = {
        "matched": matched_tables(matched),
        "ranking": ranked,
        "ratings": rating_tables(rated),
    }
    page = partial(_page, rows, title=title, context=context, data=data, tables=tables)
    budget = max_bytes - len(page(sounds={}))
    sources = source_sounds(streams, budget=budget, talks=audio_talks)
    for place, (entry, talk) in enumerate(zip(data["talks"], talks_in_order(streams), strict=True)):
        entry["audio"] = f"audio-{place}" in sources
        entry["background"], entry["noisy"] = _background(talk)
    budget -= sum(sound.size for sound in sources.values())
    speech = speech_sounds(rows, streams, path.parent, budget=budget)

    document = page(sounds=sources | speech)
    write_bytes(path, document)
    return len(document)


def _background(talk: Talk) -> tuple[str | None, bool]:
    """Return a description of a talk's background, if it has one, and whether the talk is noisy."""
    if talk.audio is None:
        return None, False
    # a slow import, which a report without audio does not need
    from zoo.data.background import background

    found = background(talk)
    return (None, False) if found is None else (str(found), found.is_noisy)


def _page(
    rows: Sequence[Row],
    *,
    title: str,
    context: Mapping[str, str],
    data: object,
    tables: Mapping[str, Sequence[TextTable]],
    sounds: Mapping[str, Sound],
) -> bytes:
    """Return the HTML file.

    Args:
        rows: rows of results.
        title: heading.
        context: provenance of the run by name.
        data: JSON values for the page's script.
        tables: tables of texts by id of their section of the page.
        sounds: audio by id of its element.
    """
    document = render(
        "report.html",
        title=title,
        styles=STYLES,
        headline=headline(rows),
        rows=rows,
        tables=score_tables(rows),
        **tables,
        signatures=signatures(rows),
        stages=stage_bars(rows),
        stage_names=[name for name in STAGES if any(row.stages.get(name) for row in rows)],
        context={name: [text] for name, text in context.items()},
        sounds=sounds,
        data=json_block(data),
    )
    return document.encode("utf-8")
