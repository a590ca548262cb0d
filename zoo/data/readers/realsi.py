"""RealSI: talks of about five minutes, translated as interpreters do (Cheng et al., 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.base.disk.parsing import MALFORMED, bounded_number, parse_json
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.base.types import Seconds
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import Recording, SegmentEntry, audio_file, optional, required
from zoo.formats.text import MS, read_text

# Seconds: the last segments of the published files end up to 1.2 s after their ``duration``.
OVERHANG: Seconds = 1.5


@dataclass(kw_only=True, eq=False)
class RealSI:
    """JSON files ``en2zh-*.json`` with recordings of the same names beside them or in a folder.

    Args:
        root: folder of the JSON files; ``talks`` raises ZooError for None.
        audio: folder of the recordings; None: ``root``.
        source_language: code of the source language.
        target_language: code of the target language.
    """

    name = "realsi"

    root: str | None
    source_language: str
    target_language: str
    audio: str | None = None

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the talks in the order of their names; the split only names the rows of results.

        See ``zoo.data.corpora.Corpus``.
        """
        root = required(
            self.root, corpus="realsi", key="root", what="the folder of the JSON files of RealSI"
        )
        folder = optional(self.audio, corpus="realsi", key="audio") or root
        pattern = f"{self.source_language}2{self.target_language}-*.json"
        paths = sorted(root.glob(pattern))
        if not paths:
            raise ZooError(f"There is no file {pattern} in {root}.")
        return build_talks(
            [_recording(path, folder) for path in paths],
            source=self.source_language,
            target=self.target_language,
            limit=limit,
            overhang=OVERHANG,
        )


def _recording(path: Path, folder: Path) -> Recording:
    """Return the talk of a JSON file. Raises ZooError for another content."""
    text = read_text(path)
    try:
        content = parse_json(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise ZooError(f"{path}, line {line}, is not JSON ({error}).") from error
    if not isinstance(content, dict) or not isinstance(content.get("segment"), list):
        raise ZooError(f"{path} is not an object with the list 'segment'.")
    if not content["segment"]:
        raise ZooError(f"{path} has no segment.")
    entries = [
        _entry(item, where=f"{path}, segment {number}")
        for number, item in enumerate(content["segment"], start=1)
    ]
    name = str(content.get("vid", path.stem))
    where = str(path)
    return Recording(where, audio_file(folder, f"{name}.wav", where=where), name, entries)


def _entry(item: Mapping[str, Any], *, where: str) -> SegmentEntry:
    """Return a segment; its times are milliseconds. Raises ZooError for another content."""
    try:
        start, end = (_number(item[key]) / MS for key in ("start_time", "end_time"))
        source, target = item["src_text"], item["trg_text"]
    except MALFORMED as error:
        raise ZooError(
            f"{where} must have start_time and end_time in milliseconds, src_text and trg_text."
        ) from error
    if not (isinstance(source, str) and isinstance(target, str)):
        raise ZooError(f"{where} has a src_text or trg_text that is no text.")
    return SegmentEntry(where, start, end - start, source, target)


def _number(value: object) -> float:
    """Return a number of JSON. Raises TypeError for another value."""
    if isinstance(value, str):
        raise TypeError
    return bounded_number(value)
