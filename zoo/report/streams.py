"""Streams of finished rows, read from the files of their runs for a page of several runs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from zoo.data import manifest
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.formats.logs import read_log
from zoo.formats.speech import unloaded
from zoo.languages import language
from zoo.parsing import parse_json
from zoo.report.joined import RUN
from zoo.report.payload import ReportSegment, ReportStream
from zoo.report.results import Row
from zoo.streaming.elapsed import with_convention
from zoo.tar_members import stored_in

TALKS = "talks.jsonl"  # talks of a run, in its folder
SEGMENTS = "segments.jsonl"  # segments of a row, beside its log


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
        rows: joined rows; ``settings["run"]`` is the folder of their run.
        folder: folder of the report, to which the paths of the logs are relative.

    Raises:
        ZooError: a file of a row is damaged.
    """
    talks_of_run: dict[Path, dict[str, Talk]] = {}
    for place, row in enumerate(rows):
        run, log = Path(row.settings[RUN]).resolve(), folder / row.instances
        segments = log.with_name(SEGMENTS)
        if row.kind == "ceiling":
            continue  # its talks are single segments
        if not ((run / TALKS).is_file() and log.is_file() and segments.is_file()):
            continue
        if run not in talks_of_run:
            talks_of_run[run] = {talk.name: _playable(talk) for talk in manifest.read(run / TALKS)}
        yield from _streams(place, row, log, _segments(segments), talks_of_run[run])


def _streams(
    place: int,
    row: Row,
    log: Path,
    segments: dict[str, tuple[ReportSegment, ...]],
    talks: dict[str, Talk],
) -> Iterator[ReportStream]:
    """Yield the streams of one row.

    Args:
        place: index of the row.
        row: the row.
        log: its log.
        segments: its segments by name of the talk.
        talks: talks of its run by name.
    """
    for logged in read_log(log, language=language(row.target_language)):
        if logged.talk not in talks:
            raise ZooError(f"{log} has talk {logged.talk!r}, which is not in {TALKS} of its run.")
        instance = with_convention(logged, row.settings.get("convention") or "queue")
        yield ReportStream(
            place, unloaded(instance), talks[logged.talk], segments.get(logged.talk, ())
        )


def _segments(path: Path) -> dict[str, tuple[ReportSegment, ...]]:
    """Return the segments of a row by name of the talk. Raises ZooError for a damaged file."""
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
        lines = [parse_json(line) for line in text.split("\n")]  # a text may contain U+2028
        return {
            talk: tuple(
                ReportSegment(*(item[name] for name in ReportSegment.__dataclass_fields__))
                for item in items
            )
            for talk, items in groupby(lines, lambda item: str(item["talk"]))
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ZooError(f"{path} is damaged: {error!r}.") from error


def _playable(talk: Talk) -> Talk:
    """Return a talk without audio if its file is not on this machine."""
    is_here = talk.audio is not None and stored_in(talk.audio).is_file()
    return talk if is_here else replace(talk, audio=None)
