"""Streams of finished rows, read from the files of their runs for a page of several runs."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from zoo.base.disk.tar_members import stored_in
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.data import manifest
from zoo.runs.rows.row import Row
from zoo.runs.rows.segments import NAME as SEGMENTS
from zoo.runs.rows.segments import SPOKEN_NAME, ScoredSegment, read_segments
from zoo.runs.rows.store import StreamStore
from zoo.streaming.elapsed import with_convention

TALKS = "talks.jsonl"  # talks of a run, in its folder


@dataclass(frozen=True, slots=True)
class ReportStream:
    """One talk as translated by the system of one row.

    Attributes:
        row: index into the rows of the report.
        instance: emitted words with delays.
        talk: the talk.
        segments: reference segments of the talk.
        spoken: the same segments with the recognised words of the target speech; may be empty.
    """

    row: int
    instance: Instance
    talk: Talk
    segments: tuple[ScoredSegment, ...] = ()
    spoken: tuple[ScoredSegment, ...] = ()


def write_talks(folder: Path, talks: Sequence[Talk]) -> None:
    """Write the talks of a run, for :func:`finished_streams`; labels are left out.

    Args:
        folder: run folder.
        talks: talks that the run streams.
    """
    manifest.write(folder / TALKS, [replace(talk, labels={}) for talk in talks])


def finished_streams(rows: Sequence[Row], folder: Path) -> Iterator[ReportStream]:
    """Yield the streams of joined rows.

    A row without files, such as an offline row or the row of another version, has no streams. Audio
    that is not on this machine is left out.

    Args:
        rows: joined rows; ``settings.run`` is the folder of their run.
        folder: folder of the report, to which the paths of the logs are relative.

    Raises:
        ZooError: a file of a row is damaged.
    """
    talks_of_run: dict[Path, dict[str, Talk]] = {}
    for place, row in enumerate(rows):
        assert row.settings.run is not None
        run = Path(row.settings.run).resolve()
        log = Path(os.path.normpath(folder / row.instances))  # as ``read_segments`` names it
        segments = log.with_name(SEGMENTS)
        if row.kind == "ceiling":
            continue  # its talks are single segments
        if not ((run / TALKS).is_file() and segments.is_file()):
            continue
        if run not in talks_of_run:
            talks_of_run[run] = {talk.name: playable(talk) for talk in manifest.read(run / TALKS)}
        of_talk = _by_talk(segments, row)
        spoken = log.with_name(SPOKEN_NAME)
        words = _by_talk(spoken, row) if spoken.is_file() else {}
        if unknown := of_talk.keys() - talks_of_run[run].keys():
            raise ZooError(
                f"{segments} is damaged: talk {min(unknown)!r} is not in {TALKS} of its run."
            )
        for stream in _streams(place, row, log.parent, of_talk, talks_of_run[run]):
            yield replace(stream, spoken=words.get(stream.talk.name, ()))


def _by_talk(path: Path, row: Row) -> dict[str, tuple[ScoredSegment, ...]]:
    """Return the segments of a row by talk. Raises ZooError for a damaged file."""
    found = read_segments(path, needed_by="a page of several runs", count=row.settings.segments)
    return {talk: tuple(items) for talk, items in groupby(found, lambda one: one.talk)}


def _streams(
    place: int,
    row: Row,
    folder: Path,
    segments: dict[str, tuple[ScoredSegment, ...]],
    talks: dict[str, Talk],
) -> Iterator[ReportStream]:
    """Yield the streams of one row.

    Args:
        place: index of the row.
        row: the row.
        folder: its folder.
        segments: its segments by name of the talk.
        talks: talks of its run by name.
    """
    streams = StreamStore(folder).read(samples=False).values()
    if row.settings.talks not in (None, len(streams)):
        raise ZooError(
            f"{folder} is damaged: it has {len(streams)} streams, its row {row.settings.talks}."
        )
    for stored in streams:
        if stored.talk not in talks:
            raise ZooError(
                f"{folder} has talk {stored.talk!r}, which is not in {TALKS} of its run."
            )
        instance = with_convention(stored, row.settings.convention or "queue")
        yield ReportStream(place, instance, talks[stored.talk], segments.get(stored.talk, ()))


def playable(talk: Talk) -> Talk:
    """Return a talk without audio if its file is not on this machine."""
    is_here = talk.audio is not None and stored_in(talk.audio).is_file()
    return talk if is_here else replace(talk, audio=None)
