"""Cut manifests of lhotse: JSON lines, plain or compressed with gzip (Żelasko et al., 2021).

The manifests are read here, without the library: an evaluation needs only the recording of a cut
and the times and texts of its supervisions.
"""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.base.disk.parsing import MALFORMED, bounded_number, parse_object
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.base.types import Seconds
from zoo.data.readers.building import OVERHANG, build_talks
from zoo.data.readers.entries import Recording, SegmentEntry, at, required
from zoo.data.readers.films import channel_file
from zoo.formats.text import LARGEST, LONGEST_LINE

SUFFIXES = (".jsonl", ".jsonl.gz")


@dataclass(kw_only=True, eq=False)
class Lhotse:
    """Cuts of recordings, with supervisions as segments.

    Args:
        cuts: manifest of cuts, or a folder with ``<split>.jsonl(.gz)`` or
            ``cuts_<split>.jsonl(.gz)``; ``talks`` raises ZooError for None.
        source_language: code of the source language.
        target_language: code of the target language.
        translation: field of the translations in ``custom`` of each supervision, with a string or
            a mapping from language codes to strings; None: scores that need references are left
            out.
        name: name of the corpus.
    """

    cuts: str | None
    source_language: str
    target_language: str
    translation: str | None = "translation"
    name: str = "lhotse"

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the cuts in the order of the manifest; see ``zoo.data.corpora.Corpus``.

        Relative paths of recordings start at the folder of the manifest, or at the current folder
        as in lhotse.
        """
        what = "a manifest of cuts, or the folder of the manifests of the splits"
        path = _manifest(required(self.cuts, corpus="lhotse", key="cuts", what=what), split)
        recordings: list[Recording] = []
        for number, line in enumerate(_lines(path), start=1):
            if limit is not None and len(recordings) == limit:
                break
            if line.strip():
                recordings.append(self._recording(line, path, at(path, number)))
        if not recordings:
            raise ZooError(f"{path} is empty.")
        return build_talks(recordings, source=self.source_language, target=self.target_language)

    def _recording(self, line: str, path: Path, where: str) -> Recording:
        """Return the recording of a line. Raises ZooError for another content."""
        cut = _cut(line, where)
        file = _channels(cut, _file(cut, path.parent, where), where)
        try:
            start, duration = map(bounded_number, (cut["start"], cut["duration"]))
            entries = [
                self._entry(item, where=f"{where}, supervision {number}")
                for number, item in enumerate(cut.get("supervisions") or [], start=1)
            ]
            name = str(cut["id"])
        except MALFORMED as error:
            raise ZooError(f"{where} is a cut without id, start or duration.") from error
        return Recording(where, file, name, entries or [SegmentEntry(where)], start, duration)

    def _entry(self, item: Mapping[str, Any], *, where: str) -> SegmentEntry:
        """Return the segment of a supervision; its times start at the start of the cut."""
        try:
            start, duration = map(bounded_number, (item["start"], item["duration"]))
        except MALFORMED as error:
            raise ZooError(f"{where} has no start or duration in seconds.") from error
        # A cut may begin shortly after its supervision, and may end shortly before it.
        early: Seconds = min(0.0, start)
        if -OVERHANG <= early < 0:
            start, duration = 0.0, duration + early
        text, speaker = item.get("text") or "", str(item.get("speaker") or "")
        if not isinstance(text, str):
            raise ZooError(f"{where} has a 'text' that is no text.")
        return SegmentEntry(where, start, duration, text, self._target(item, where), speaker)

    def _target(self, item: Mapping[str, Any], where: str) -> str | None:
        """Return the translation of a supervision. Raises ZooError if it is no text."""
        if self.translation is None:
            return None
        custom = item.get("custom") or {}
        if not isinstance(custom, Mapping):
            raise ZooError(f"{where} has a 'custom' that is no mapping.")
        translation = custom.get(self.translation)
        if isinstance(translation, Mapping):
            translation = translation.get(self.target_language)
        if translation is not None and not isinstance(translation, str):
            raise ZooError(f"{where} has a {self.translation!r} that is no text.")
        return translation


def _manifest(path: Path, split: str) -> Path:
    """Return the manifest of a split. Raises ZooError if there is none."""
    if not path.is_dir():
        if not path.is_file():
            raise ZooError(f"There is no file {path}.")
        return path
    candidates = [
        path / f"{prefix}{split}{suffix}" for suffix in SUFFIXES for prefix in ("", "cuts_")
    ]
    existing = [one for one in candidates if one.is_file()]
    if len(existing) != 1:
        names = ", ".join(one.name for one in existing or candidates)
        problem = "has several manifests" if existing else "has no manifest"
        raise ZooError(f"{path} {problem} of split {split!r}: {names}.")
    return existing[0]


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a manifest.

    Raises ZooError for content that is not text in UTF-8, or that is too long.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            size = 0
            while line := file.readline(LONGEST_LINE):
                number, size = number + 1, size + len(line)
                if len(line) == LONGEST_LINE or size > LARGEST:  # a few bytes of gzip are gigabytes
                    raise ZooError(f"{at(path, number)} is longer than any manifest of cuts.")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ZooError(f"{at(path, number)} is not text in UTF-8.") from error
    except (EOFError, OSError, zlib.error) as error:
        raise ZooError(f"{at(path, number + 1)} cannot be read ({error}).") from error


def _cut(line: str, where: str) -> dict[str, Any]:
    """Return the cut of a line. Raises ZooError for another content, and for mixed cuts."""
    cut = parse_object(line, where)
    kind = cut.get("type", "MonoCut")
    if kind not in ("MonoCut", "MultiCut"):
        raise ZooError(
            f"{where} is a {kind}; only cuts of one recording (MonoCut, MultiCut) can be streamed."
        )
    return cut


def _file(cut: Mapping[str, Any], folder: Path, where: str) -> Path:
    """Return the audio file of a cut.

    Raises:
        ZooError: the cut has no recording in one file, or its recording is changed when it is
            loaded (speed, volume), which a file does not show.
    """
    recording = cut.get("recording")
    if not isinstance(recording, dict) or not isinstance(recording.get("sources"), list):
        raise ZooError(f"{where} is a cut without a recording.")
    if recording.get("transforms"):
        raise ZooError(f"{where} has transforms of its recording; save the audio first.")
    sources = recording["sources"]
    if len(sources) != 1 or not isinstance(sources[0], dict) or sources[0].get("type") != "file":
        raise ZooError(f"{where} has a recording that is not one audio file.")
    path = Path(str(sources[0].get("source", "")))
    return folder / path if (folder / path).is_file() else path


def _channels(cut: Mapping[str, Any], file: Path, where: str) -> Path:
    """Return the file of the channels of a cut: that of the recording if it has no others.

    Raises:
        ZooError: the recording has no such channel.
    """
    recorded, wanted = cut["recording"]["sources"][0].get("channels"), cut.get("channel")
    if recorded is None or wanted is None or not file.is_file():
        return file
    channels = wanted if isinstance(wanted, list) else [wanted]
    if not isinstance(recorded, list) or not all(one in recorded for one in channels):
        raise ZooError(f"{where} has the channel {wanted!r}; its recording has: {recorded!r}.")
    places = sorted({recorded.index(one) for one in channels})
    if len(places) in (0, len(recorded)):
        return file
    try:
        return channel_file(file, places)
    except ZooError as error:
        raise ZooError(f"{where}: {error}") from error
