"""Writes ``report.html``, one file that a browser shows without a network.

Source audio and target speech are part of the file as far as its largest size allows; target speech
that does not fit is played from wave files beside the logs.
"""

import html
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from zoo.disk.files import write_bytes
from zoo.report.markup import facts, headline, json_block, signatures, tables
from zoo.report.palette import variables
from zoo.report.payload import payload, talks_in_order
from zoo.report.sounds import elements, source_sounds, speech_sounds
from zoo.report.stages import stage_section
from zoo.results.row import Row
from zoo.results.streams import ReportStream
from zoo.talks import Talk

SHEETS = ("page", "stages", "talk", "segments")
SCRIPTS = (
    "base",
    "filters",
    "scores",
    "labels",
    "curves",
    "player",
    "clock",
    "layout",
    "timeline",
    "overview",
    "units",
    "segments",
    "main",
)
MAX_BYTES = 15_000_000


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
    """Write the report and return its size in bytes.

    Args:
        path: path of the HTML file; the rows' logs are relative to its folder.
        rows: rows of results.
        streams: streams of the rows.
        title: heading.
        context: provenance of the run by name (command, commit, machine, ...).
        audio_talks: number of talks, from the first talk on, whose audio is included (None: all).
        max_bytes: maximum size of the file. Sounds that do not fit are left out.

    Raises:
        ZooError: audio cannot be read.
    """
    data = payload(rows, streams)
    budget = max_bytes - len(_page(rows, title=title, context=context, data=data, sounds=()))
    sources = source_sounds(streams, budget=budget, talks=audio_talks)
    for place, entry in enumerate(data["talks"]):
        entry["audio"] = place in sources
    for entry, talk in zip(data["talks"], talks_in_order(streams), strict=True):
        entry["background"], entry["noisy"] = _background(talk)
    budget -= sum(map(len, elements(sources, {})))
    speech = speech_sounds(rows, streams, path.parent, budget=budget)

    sounds = elements(sources, speech)
    document = _page(rows, title=title, context=context, data=data, sounds=sounds)
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
    sounds: Sequence[str],
) -> bytes:
    """Return the HTML file.

    Args:
        rows: rows of results.
        title: heading.
        context: provenance of the run by name.
        data: JSON values for the page's script.
        sounds: script elements with audio.
    """
    assets = files("zoo.report") / "assets"
    script = "\n".join((assets / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    document = Template((assets / "report.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        style=variables()
        + "".join((assets / f"{name}.css").read_text(encoding="utf-8") for name in SHEETS),
        headline="".join(f"<p>{html.escape(line)}</p>" for line in headline(rows)),
        context=facts({name: [text] for name, text in context.items()}),
        tables=tables(rows),
        compute=stage_section(rows),
        compute_link='<a href="#compute">Compute</a> ' if any(row.stages for row in rows) else "",
        signatures=facts(signatures(rows), tag="code"),
        data=json_block(data),
        audio="".join(sounds),
        script=script,
    )
    return document.encode("utf-8")
