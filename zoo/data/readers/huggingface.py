"""Audio data sets of Hugging Face on disk, as ``Dataset.save_to_disk`` writes them.

Rows are read one by one from the memory-mapped tables, and audio is not decoded here.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from zoo.base.disk.files import check_regular, sha256, write_bytes
from zoo.base.disk.parsing import MALFORMED, bounded_number, read_json
from zoo.base.errors import ZooError, shorten, unknown_choice
from zoo.base.talks import Talk
from zoo.base.types import Seconds
from zoo.data.cache import cache_root, lock_folder
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import FILMS, READABLE, Recording, SegmentEntry, required
from zoo.formats.text import recording_name

if TYPE_CHECKING:
    from datasets import Dataset

Row = Mapping[str, Any]
STATE = "state.json"
TABLES = ("_data_files", "_indices_data_files")  # keys of a state with names of tables


@dataclass(kw_only=True, eq=False)
class HuggingFace:
    """A data set on disk; each row is a recording.

    A column of texts has a string per row, or a mapping from language codes to strings. Audio that
    is stored in the tables is copied to the cache folder (``SIMULZOO_CACHE``), because talks are
    streamed from files.

    Args:
        folder: folder of ``save_to_disk``; ``talks`` raises ZooError for None.
        source_language: code of the source language.
        target_language: code of the target language.
        audio: column of the audio, or of paths of audio files.
        transcript: column of the transcripts; None: no transcripts.
        translation: column of the translations; None: scores that need references are left out.
        segments: column of the segments of long recordings, each with ``offset`` and ``duration``
            (seconds) and with the texts under the names ``transcript`` and ``translation``; None:
            each row is one segment.
        row_name: column of unique names; None: the names of the audio files, or the numbers of the
            rows.
        name: name of the corpus.
    """

    folder: str | None
    source_language: str
    target_language: str
    audio: str = "audio"
    transcript: str | None = None
    translation: str | None = None
    segments: str | None = None
    row_name: str | None = None
    name: str = "huggingface"

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the rows of a split, or of a data set without splits.

        See ``zoo.data.corpora.Corpus``.
        """
        what = "a folder that Dataset.save_to_disk has written"
        folder = required(self.folder, corpus="huggingface", key="folder", what=what)
        rows = _load(folder, split)
        self._check_columns(rows.column_names)
        rows = _without_decoding(rows, self.audio)
        where = f"{folder}, split {split!r}"
        count = len(rows) if limit is None else min(limit, len(rows))
        if not count:
            raise ZooError(f"{where} has no rows.")
        recordings = [
            self._recording(_row(rows, number, place), number, place)
            for number in range(count)
            for place in [f"{where}, row {number}"]
        ]
        return build_talks(recordings, source=self.source_language, target=self.target_language)

    def _check_columns(self, columns: list[str]) -> None:
        """Raise ZooError for a column that the data set does not have."""
        configured = [self.audio, self.row_name, self.segments]
        if self.segments is None:
            configured += [self.transcript, self.translation]
        for column in configured:
            if column is not None and column not in columns:
                raise unknown_choice("column", column, columns)

    def _recording(self, row: Row, number: int, where: str) -> Recording:
        """Return the recording of a row."""
        path, file_name = _audio(row[self.audio], where=where)
        name = recording_name(file_name) if file_name else f"row-{number:06d}"
        if self.row_name is not None:
            name = str(row[self.row_name])
        if self.segments is None:
            return Recording(where, path, name, [self._entry(row, where)])
        segments = row[self.segments]
        if not segments:
            raise ZooError(f"{where} has no segments.")
        entries = [
            self._entry(segment, f"{where}, segment {index}")
            for index, segment in enumerate(_items(segments, where))
        ]
        return Recording(where, path, name, entries)

    def _entry(self, row: Row, where: str) -> SegmentEntry:
        """Return the segment of a row, or of an item of its segments."""
        offset: Seconds = 0.0
        duration: Seconds | None = None
        if self.segments is not None:
            try:
                offset, duration = map(bounded_number, (row["offset"], row["duration"]))
            except MALFORMED as error:
                raise ZooError(f"{where} must have offset and duration in seconds.") from error
        source = _text(row, self.transcript, self.source_language, where=where)
        target = _text(row, self.translation, self.target_language, where=where)
        return SegmentEntry(where, offset, duration, source or "", target)


def _load(folder: Path, split: str) -> "Dataset":
    """Return a split, or a data set without splits. Raises ZooError for another folder."""
    if not folder.is_dir():
        raise ZooError(f"There is no folder {folder}.")
    try:
        from datasets import DatasetDict, load_from_disk
    except ImportError as error:
        raise ZooError("data=huggingface needs Datasets: pip install -e .[datasets].") from error
    try:
        _check_files(folder)
        loaded = load_from_disk(str(folder))
    except ZooError:
        raise
    # Arrow, JSON and the file system raise errors without a common base class.
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ZooError(f"{folder} cannot be read as a data set on disk ({reason}).") from error
    if not isinstance(loaded, DatasetDict):
        return loaded
    if split not in loaded:
        raise unknown_choice("split", split, list(loaded))
    return loaded[split]


def _check_files(folder: Path) -> None:
    """Check the tables of a data set, before they are loaded.

    Arrow takes the place of a text in a table from the table itself, and reads there what the
    memory has. ``state.json`` may name tables anywhere.

    Raises:
        ZooError: A file is a pipe, or a state names a file in another folder.
        Exception: A file is damaged: errors of Arrow, of JSON or of the file system.
    """
    import pyarrow as pa

    for file in folder.rglob("*"):
        check_regular(file)
        if file.name == STATE:
            _check_state(file)
        if file.suffix == ".arrow":
            with pa.memory_map(str(file)) as content:
                pa.ipc.open_stream(content).read_all().validate(full=True)


def _check_state(file: Path) -> None:
    """Raise ZooError for a state that names a table twice, or one in another folder."""
    state = read_json(file)
    tables = [table for key in TABLES for table in state.get(key) or ()]
    names = [str(table["filename"]) for table in tables]
    for name in names:
        if PureWindowsPath(name).name != name or name in ("", "..") or names.count(name) > 1:
            raise ZooError(f"{file} names {shorten(name)!r}, which must be one file beside it.")


def _row(rows: "Dataset", number: int, where: str) -> Row:
    """Return a row. Raises ZooError for one that cannot be read."""
    try:
        row: Row = rows[number]
    except Exception as error:  # of Arrow, of Datasets or of a codec
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ZooError(f"{where} cannot be read ({reason}).") from error
    return row


def _without_decoding(rows: "Dataset", column: str) -> "Dataset":
    """Return a data set whose audio column has bytes and paths instead of samples."""
    from datasets import Audio

    rows = rows.with_format(None)  # a stored format may leave columns out
    if not isinstance(rows.features[column], Audio):
        return rows
    return rows.cast_column(column, Audio(decode=False))


def _audio(value: object, *, where: str) -> tuple[Path, str]:
    """Return the audio file of a row and the name under which the data set has it.

    Args:
        value: path, or bytes and path.
        where: folder, split and row.

    Raises:
        ZooError: the row has no audio.
    """
    if isinstance(value, str):
        return Path(value), Path(value).name
    content = value.get("bytes") if isinstance(value, Mapping) else None
    path = value.get("path") if isinstance(value, Mapping) else None
    name = Path(path).name if path else ""
    if content is None:
        if not path:
            raise ZooError(f"{where} has no audio.")
        return Path(path), name
    folder = cache_root() / "huggingface"
    digest = hashlib.sha256(content).hexdigest()
    suffix = Path(name).suffix.lower()
    file = folder / f"{digest[:32]}{suffix if suffix in (*READABLE, *FILMS) else ''}"
    if not file.is_file() or sha256(file) != digest:
        with lock_folder(folder):
            write_bytes(file, content)
    return file, name


def _items(segments: Any, where: str) -> list[Row]:
    """Return segments as a list of mappings; older data sets store a mapping of lists.

    Raises ZooError for other values.
    """
    if isinstance(segments, Mapping):
        try:
            columns = zip(*segments.values(), strict=True)
            segments = [dict(zip(segments, values, strict=True)) for values in columns]
        except (TypeError, ValueError):  # a column is no list, or shorter than others
            segments = None
    if not isinstance(segments, list) or not all(isinstance(one, Mapping) for one in segments):
        raise ZooError(f"{where} has segments that are no list of offset, duration and texts.")
    return segments


def _text(row: Row, column: str | None, language: str, *, where: str) -> str | None:
    """Return the text of a column, or None without a column.

    Raises:
        ZooError: the row has no text there.
    """
    if column is None:
        return None
    value = row.get(column)
    if isinstance(value, Mapping):
        value = value.get(language)
    if not isinstance(value, str):
        raise ZooError(f"{where} has no text in {column!r} for the language {language!r}.")
    return value
