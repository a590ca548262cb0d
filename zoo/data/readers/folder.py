"""A plain folder: audio files, and texts of the same names beside them.

``talk.wav`` may have one text per language, ``talk.<language>.<suffix>``. The suffix is that of the
format:

* ``talk.de.srt``: subtitles, one segment each;
* ``talk.de.tsv``: a segment per line as start, end (seconds) and text, separated by tabs;
* ``talk.de.txt``: text without times.

The text in the source language is the transcript, that in the target language the reference. Text i
of the one and text i of the other belong together. The times are those of the reference if it has
any, otherwise those of the transcript; without times, the talk is one segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.base.languages import LANGUAGES
from zoo.base.talks import Talk
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import FILMS, READABLE, Recording, SegmentEntry, required
from zoo.data.readers.subtitles import Timed, read_srt, read_tsv
from zoo.formats.text import read_lines

TEXTS = (".srt", ".tsv", ".txt")
# Other formats of subtitles, which are named instead of passed over.
OTHER_TEXTS = (".vtt", ".ass", ".ssa", ".sbv", ".ttml", ".stm", ".textgrid")


@dataclass(kw_only=True, eq=False)
class Folder:
    """Audio files with optional transcripts and translations.

    Args:
        root: folder of the audio files, or of a folder per split; ``talks`` raises ZooError for
            None.
        source_language: code of the source language.
        target_language: code of the target language.
        name: name of the corpus.
    """

    root: str | None
    source_language: str
    target_language: str
    name: str = "folder"

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the audio files of ``<root>/<split>``, or of ``root`` if it has no such folder.

        Talks are in the order of their names. See ``zoo.data.corpora.Corpus``.
        """
        root = required(self.root, corpus="folder", key="root", what="a folder of audio files")
        if not root.is_dir():
            raise ZooError(f"There is no folder {root}.")
        folder = root / split if (root / split).is_dir() else root
        files = sorted(path for path in folder.iterdir() if path.is_file())
        recordings = [
            self._recording(path, texts) for path, texts in _texts_of(files, folder).items()
        ]
        return build_talks(
            recordings, source=self.source_language, target=self.target_language, limit=limit
        )

    def _recording(self, path: Path, texts: dict[str, Path]) -> Recording:
        """Return an audio file with the segments of its texts."""
        reference, transcript = (
            texts.get(code) for code in (self.target_language, self.source_language)
        )
        others = [
            code for code in texts if code not in (self.source_language, self.target_language)
        ]
        if reference is None and others:
            raise ZooError(
                f"{path} has no text in the target language {self.target_language}, but in "
                f"{', '.join(sorted(others))}; choose target_language={others[0]}, or move these "
                "texts to another folder to translate without references."
            )
        targets = [] if reference is None else _read(reference)
        sources = [] if transcript is None else _read(transcript)
        if not targets and not sources:
            return Recording(str(path), path, path.stem, [SegmentEntry(str(path))])
        timed = next((rows for rows in (targets, sources) if rows and rows[0].timed), None)
        if timed is None:
            targets, sources = _joined(targets), _joined(sources)
        if targets and sources and len(targets) != len(sources):
            first = min(len(targets), len(sources))
            where = (targets if len(targets) > first else sources)[first].where
            raise ZooError(
                f"{reference} has {len(targets)} segments but {transcript} has {len(sources)}; "
                f"{where}, has no counterpart."
            )
        times: Sequence[Timed] = timed or targets or sources
        entries = [
            SegmentEntry(
                row.where,
                row.start,
                None if row.end is None else row.end - row.start,
                sources[index].text if sources else "",
                targets[index].text if targets else None,
            )
            for index, row in enumerate(times)
        ]
        return Recording(str(path), path, path.stem, entries)


def _texts_of(files: Sequence[Path], folder: Path) -> dict[Path, dict[str, Path]]:
    """Return the texts by language of each audio file.

    Args:
        files: all files of the folder.
        folder: the folder, for error messages.

    Raises:
        ZooError: there is no audio file, or a file cannot be used as it is named.
    """
    for path in files:
        if path.suffix.lower() in OTHER_TEXTS:
            raise ZooError(f"{path} has a format that cannot be read; convert it to .srt.")
    texts: dict[Path, dict[str, Path]] = {
        path: {} for path in files if path.suffix.lower() in (*READABLE, *FILMS)
    }
    if not texts:
        raise ZooError(f"There is no audio file in {folder}.")
    by_stem = {path.stem: path for path in texts}
    for path in files:
        if path.suffix.lower() not in TEXTS:
            continue
        stem, _, code = path.stem.rpartition(".")
        if path.stem in by_stem or code not in LANGUAGES:
            raise ZooError(
                f"{path} does not name its language; rename it to <audio file>.<language>"
                f"{path.suffix}, such as talk.de{path.suffix}."
            )
        if stem not in by_stem:
            raise ZooError(f"{path} belongs to no audio file: there is no {stem}.wav beside it.")
        other = texts[by_stem[stem]].setdefault(code, path)
        if other is not path:
            raise ZooError(f"{other} and {path} are two texts of one talk in one language.")
    return texts


def _read(path: Path) -> list[Timed]:
    """Return the segments of a text file; of ``.txt``, the lines."""
    if path.suffix.lower() == ".srt":
        return read_srt(path)
    if path.suffix.lower() == ".tsv":
        return read_tsv(path)
    lines = [
        Timed(f"{path}, line {number}", line)
        for number, line in enumerate(read_lines(path), start=1)
        if line
    ]
    if not lines:
        raise ZooError(f"{path} is empty.")
    return lines


def _joined(rows: Sequence[Timed]) -> list[Timed]:
    """Return lines without times as one text."""
    return [Timed(rows[0].where, " ".join(row.text for row in rows))] if rows else []
