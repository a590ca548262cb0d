"""Writes ``report.html``, one file that a browser shows without a network.

Source audio is part of the file; target speech is played from wave files beside the logs.
"""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from zoo.data.talks import Talk
from zoo.files import write_bytes
from zoo.report.markup import facts, headline, json_block, signatures, tables
from zoo.report.payload import ReportSegment, ReportStream, payload, talks_in_order
from zoo.report.results import Row
from zoo.types import SAMPLE_RATE

__all__ = ["ReportSegment", "ReportStream", "write_report"]

SCRIPTS = (
    "base",
    "scores",
    "curves",
    "clock",
    "layout",
    "timeline",
    "overview",
    "segments",
    "main",
)
MAX_BYTES = 15_000_000
# On libsndfile's scale, 0.9 is MP3 at a constant 24 kbit/s for 16 kHz speech. A browser seeks to
# exact positions only in a file with a constant bit rate.
_COMPRESSION = 0.9
_AUDIO_BYTES_PER_SECOND = 24_000 / 8 * 4 / 3  # base64 writes 3 bytes as 4 characters
_ELEMENT_BYTES = 100  # upper bound of the script element around the audio of a talk


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
        max_bytes: maximum size of the file. The audio of a talk that does not fit is left out.

    Raises:
        ZooError: audio cannot be read.
    """
    data = payload(rows, streams)
    talks = talks_in_order(streams)
    size = len(_page(rows, title=title, context=context, data=data, sounds=()))
    budget = max_bytes - size
    sounds = _sounds(talks if audio_talks is None else talks[:audio_talks], budget=budget)
    for place, entry in enumerate(data["talks"]):
        entry["audio"] = place in sounds

    blocks = [
        f'<script type="text/plain" id="audio-{place}">{sound}</script>\n'
        for place, sound in sounds.items()
    ]
    document = _page(rows, title=title, context=context, data=data, sounds=blocks)
    write_bytes(path, document)
    return len(document)


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
        sounds: script elements with the audio of the talks.
    """
    assets = files("zoo.report") / "assets"
    script = "\n".join((assets / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    document = Template((assets / "report.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        style=(assets / "page.css").read_text(encoding="utf-8")
        + (assets / "talk.css").read_text(encoding="utf-8"),
        headline="".join(f"<p>{html.escape(line)}</p>" for line in headline(rows)),
        context=facts({name: [text] for name, text in context.items()}),
        tables=tables(rows),
        signatures=facts(signatures(rows), tag="code"),
        data=json_block(data),
        audio="".join(sounds),
        script=script,
    )
    return document.encode("utf-8")


def _sounds(talks: Sequence[Talk], *, budget: float) -> dict[int, str]:
    """Encode the audio of the talks that fit.

    Args:
        talks: talks in the order of the report.
        budget: maximum size of all audio in bytes.

    Returns:
        The audio as base64, by index of the talk.
    """
    sounds: dict[int, str] = {}
    for place, talk in enumerate(talks):
        if talk.audio is None or talk.duration * _AUDIO_BYTES_PER_SECOND > budget:
            continue
        encoded = _mp3(talk)
        if len(encoded) + _ELEMENT_BYTES <= budget:
            sounds[place] = encoded
            budget -= len(encoded) + _ELEMENT_BYTES
    return sounds


def _mp3(talk: Talk) -> str:
    """Return the source audio of a talk as MP3 in base64."""
    # slow imports, which a report without audio does not need
    import soundfile

    from zoo import audio

    samples = audio.load(talk.file, start=talk.offset, duration=talk.duration).numpy()
    buffer = io.BytesIO()
    soundfile.write(
        buffer,
        samples,
        SAMPLE_RATE,
        format="MP3",
        bitrate_mode="CONSTANT",
        compression_level=_COMPRESSION,
    )
    return base64.b64encode(buffer.getvalue()).decode("ascii")
