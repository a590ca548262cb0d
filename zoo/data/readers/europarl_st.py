"""Europarl-ST: speeches of the European Parliament (Iranzo-Sánchez et al., 2020)."""

from dataclasses import dataclass
from pathlib import Path

from zoo.base.disk.parsing import bounded_number
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import (
    SegmentEntry,
    at,
    audio_file,
    by_audio,
    existing_folder,
    required,
)
from zoo.formats.text import read_lines


@dataclass(kw_only=True, eq=False)
class EuroparlST:
    """The unpacked corpus: ``<root>/en/audios`` and ``<root>/en/de/<split>/segments.*``.

    Args:
        root: folder that contains ``en``, ``de`` and so on; ``talks`` raises ZooError for None.
        source_language: code of the source language.
        target_language: code of the target language.
    """

    name = "europarl_st"

    root: str | None
    source_language: str
    target_language: str

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the speeches of train, train-noisy, dev or test; see ``zoo.data.corpora.Corpus``.

        ``segments.lst`` names the recording, the start and the end (seconds) of each segment.
        """
        what = "the folder of your Europarl-ST download (the one that contains en)"
        root = required(self.root, corpus="europarl_st", key="root", what=what)
        source, target = self.source_language, self.target_language
        folder = existing_folder(
            root / source / target / split, corpus="Europarl-ST", like="a split of the pair"
        )
        listed = folder / "segments.lst"
        rows = read_lines(listed)
        sources = _texts(listed, rows, language=source)
        targets = _texts(listed, rows, language=target)

        entries = []
        for number, (row, transcript, translation) in enumerate(
            zip(rows, sources, targets, strict=True), start=1
        ):
            where = at(listed, number)
            name, start, end = _fields(row, where=where)
            path = audio_file(root / source / "audios", name, where=where)
            entries.append((path, SegmentEntry(where, start, end - start, transcript, translation)))
        return build_talks(by_audio(entries), source=source, target=target, limit=limit)


def _fields(row: str, *, where: str) -> tuple[str, float, float]:
    """Return recording, start and end of a line. Raises ZooError for another line."""
    try:
        name, start, end = row.split()
        return name, bounded_number(start), bounded_number(end)
    except ValueError as error:
        raise ZooError(
            f"{where} must have the name of a recording, a start and an end in seconds, "
            f"not {row!r}."
        ) from error


def _texts(listed: Path, rows: list[str], *, language: str) -> list[str]:
    """Return the texts of a language. Raises ZooError for another number of lines."""
    path = listed.with_name(f"segments.{language}")
    texts = read_lines(path)
    if len(texts) != len(rows):
        first = min(len(texts), len(rows)) + 1
        raise ZooError(
            f"{listed} has {len(rows)} lines but {path} has {len(texts)}; "
            f"line {first} is in one of them only."
        )
    return texts
