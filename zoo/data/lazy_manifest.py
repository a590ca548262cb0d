"""Talks of a manifest that are decoded when they are needed, by its index."""

import json
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from zoo.base.errors import ZooError
from zoo.base.talks import LazySegments, LazyTalks, Segment, Talk, Word
from zoo.base.types import Seconds
from zoo.data import manifest
from zoo.data.manifest_index import NAMES, MarkUnusable, array, find_index
from zoo.data.views import move_segment

Rows = np.ndarray[Any, Any]


class Bytes:
    """A file that is open for reading at any place, also in processes that are forked later.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)

    def read(self, start: int, size: int) -> bytes:
        """Return ``size`` bytes from ``start`` on."""
        return os.pread(self._descriptor, size, start)


class StoredSegments(LazySegments):
    """Segments of one talk, read from the manifest when they are needed.

    Args:
        file: the manifest.
        rows: rows of ``manifest_index.SEGMENTS``.
        begin: what the times of the talk are counted from; NaN: the talk is a whole one.
    """

    def __init__(self, file: Bytes, rows: Rows, begin: Seconds) -> None:
        self._file = file
        self._spans = rows[["byte", "bytes"]].tolist()
        self._begin = begin
        times = rows[["offset", "duration", "start", "end"]].tolist()
        self.outline = [_outline(*item) for item in times]

    def __len__(self) -> int:
        return len(self._spans)

    def item(self, index: int) -> Segment:
        """Read and decode a segment."""
        segment = manifest.decode_segment(self._file.read(*self._spans[index]))
        return segment if np.isnan(self._begin) else move_segment(segment, self._begin)


class StoredTalks(LazyTalks):
    """Usable parts of the talks of a manifest, for trainings. Labels of the talks are left out.

    Args:
        path: the manifest; its index is made if it has none.
        unaligned: ``data.unaligned``.
        mark_unusable: marks the segments of a talk that trainings leave out.

    Raises:
        ZooError: the manifest is damaged or has no segment to train on.
    """

    def __init__(self, path: Path, *, unaligned: str, mark_unusable: MarkUnusable) -> None:
        folder, self.description = find_index(
            path, unaligned=unaligned, mark_unusable=mark_unusable
        )
        self._path = path
        self._manifest = Bytes(path)
        self._names = Bytes(folder / NAMES)
        self._end = (folder / NAMES).stat().st_size
        self._talks = array(folder, "talks")
        self._segments = array(folder, "segments")
        self.content_hash = self.description.content_hash
        self.hours = self.description.seconds / 3600
        if not len(self._talks):
            raise ZooError(f"{path} has no segments to train on.")

    def __len__(self) -> int:
        return len(self._talks)

    def item(self, index: int) -> Talk:
        """Return a talk, whose segments are not decoded yet."""
        row = self._talks[index]
        last = index + 1 == len(self)
        end = self._end if last else int(self._talks[index + 1]["name"])
        after = len(self._segments) if last else int(self._talks[index + 1]["segment"])
        line = self._names.read(int(row["name"]), end - int(row["name"]))
        rows = self._segments[int(row["segment"]) : after]
        segments = StoredSegments(self._manifest, rows, float(row["begin"]))
        return manifest.with_segments(json.loads(line), segments, folder=self._path.parent)

    def check(self, *, source: str, target: str) -> None:
        """Check the languages of all talks; see ``LazyTalks``."""
        for code, name in self.description.sources.items():
            if code != source:
                raise ZooError(f"Talk {name!r} is spoken in {code!r}, not in {source!r}.")
        codes = self.description.targets or []
        if target not in codes:
            raise ZooError(
                f"The segments of {self._path} have not all a translation into {target!r}; all "
                f"have: {', '.join(codes) or 'none'}."
            )


_NO_TARGETS: dict[str, Any] = {}  # targets of all outlines


def _outline(offset: Seconds, duration: Seconds, start: Seconds, end: Seconds) -> Segment:
    """Return a segment with its times only; see ``LazySegments``."""
    words = () if np.isnan(start) else (Word("", start, end),)
    return Segment(offset, duration, "", words, _NO_TARGETS)
