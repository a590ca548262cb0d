"""``report.html``: one file for a browser without a network; target speech lies beside it. No metric and no model."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

import soundfile

from zoo import audio
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
    ``max_bytes``; the page says which have none. Target speech is played from the files beside the rows' logs
    (``zoo/formats/speech.py``), which lie relative to the page. Raises ZooError for audio that cannot be read.
    """
    data = payload(rows, streams)
    talks = talks_in_order(streams)
    budget = max_bytes - len(_page(rows, title=title, context=context, data=data, sounds=()))
    sounds = _sounds(talks if audio_talks is None else talks[:audio_talks], budget=budget)
    for entry, place in zip(data["talks"], range(len(talks)), strict=True):
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
    sounds: dict[int, str] = {}
    for place, talk in enumerate(talks):
        if talk.audio is None or talk.duration * _AUDIO_BYTES_PER_SECOND > budget:
            continue
        encoded = _mp3(talk)
        if len(encoded) + 100 <= budget:
            sounds[place] = encoded
            budget -= len(encoded) + 100
    return sounds


def _mp3(talk: Talk) -> str:
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
