"""Reference segments of a row with the output that was assigned to them: ``segments.jsonl``.

``speech_segments.jsonl`` has the recognised words of the target speech in their place, and the ends
of their playback as delays.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import read_bounded
from zoo.base.errors import ZooError
from zoo.base.types import Seconds
from zoo.formats.text import LARGEST, json_lines
from zoo.runs.rows.row import first_problem
from zoo.runs.rows.settings import STRICT

NAME = "segments.jsonl"  # beside the log of the row
# The same segments with the words that a recogniser found in the target speech.
SPOKEN_NAME = "speech_segments.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSegment:
    """A reference segment of a talk and the hypothesis that was assigned to it.

    Attributes:
        talk: name of the talk.
        segment: number of the segment in the talk, from 0.
        offset: start of the segment in seconds from the start of the talk.
        duration: duration of the segment in seconds.
        source: transcript.
        reference: reference translation; empty without one.
        hypothesis: text that was assigned to the segment.
        delays: ideal time of each unit in seconds from the start of the segment; empty for offline
            output.
        elapsed: computation-aware time of each unit; empty if there is none.
        scores: scores of the segment by name; None: the score is not defined.
    """

    __pydantic_config__ = STRICT
    talk: str
    segment: int
    offset: Seconds
    duration: Seconds
    source: str
    reference: str
    hypothesis: str
    delays: tuple[Seconds, ...] = ()
    elapsed: tuple[Seconds, ...] = ()
    scores: Mapping[str, float | None] = field(default_factory=dict)


def write_segments(path: Path, segments: Sequence[ScoredSegment]) -> None:
    """Write the segments of a row, one line each, talk after talk."""
    write_text(path, json_lines(asdict(segment) for segment in segments))


def write_spoken_segments(folder: Path, segments: Sequence[ScoredSegment]) -> None:
    """Write the segments of a row with the recognised words of its target speech.

    Without segments the file of an earlier scoring is removed.
    """
    path = folder / SPOKEN_NAME
    if segments:
        write_segments(path, segments)
    else:
        path.unlink(missing_ok=True)


def read_segments(path: Path, *, needed_by: str, count: int | None = None) -> list[ScoredSegment]:
    """Read the segments of a row.

    Args:
        path: ``segments.jsonl`` beside the log of the row.
        needed_by: what needs the segments, for the error message.
        count: number of segments of the row; None: unknown, as of another version.

    Raises:
        ZooError: the file is missing or damaged, or a line is missing, doubled or moved.
    """
    from pydantic import ValidationError

    path = Path(os.path.normpath(path))  # the folder before ".." need not exist
    if not path.is_file():
        raise ZooError(
            f"{path} is missing; {needed_by} needs it, and evaluations of this version write it."
        )
    try:
        lines = read_bounded(path, LARGEST).split(b"\n")
        segments = [_reader().validate_json(line, strict=True) for line in lines if line]
    except ValidationError as error:
        raise ZooError(f"{path} is damaged ({first_problem(error)}).") from error
    except OSError as error:
        raise ZooError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ZooError(f"{path} is damaged ({error}).") from error
    _check_complete(path, segments, count)
    return segments


def _check_complete(path: Path, segments: Sequence[ScoredSegment], count: int | None) -> None:
    """Raise ZooError if a line is missing, doubled or moved; arguments as in ``read_segments``."""
    seen: Counter[str] = Counter()
    starts: dict[str, Seconds] = {}
    for segment in segments:
        if segment.segment != seen[segment.talk]:
            raise ZooError(
                f"{path} is damaged: it has segment {segment.segment} of talk {segment.talk!r} "
                f"where segment {seen[segment.talk]} belongs."
            )
        if segment.offset < starts.get(segment.talk, segment.offset):
            raise ZooError(
                f"{path} is damaged: segment {segment.segment} of talk {segment.talk!r} begins at "
                f"{segment.offset:g} s, before the segment before it."
            )
        seen[segment.talk] += 1
        starts[segment.talk] = segment.offset
    if count is not None and len(segments) != count:
        raise ZooError(f"{path} is damaged: it has {len(segments)} segments, its row {count}.")


@cache
def _reader() -> Any:
    """Return pydantic's reader of a segment."""
    from pydantic import TypeAdapter

    return TypeAdapter(ScoredSegment)
