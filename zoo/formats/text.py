"""Text files, JSON lines, recording names and milliseconds, as several formats have them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zoo.errors import ZooError
from zoo.types import Seconds

Record = dict[str, Any]  # one JSON object of a log

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".mp4")
MS = 1000.0  # milliseconds per second


def read_text(path: Path) -> str:
    """Content of a UTF-8 file. Raises ZooError for a missing file and for other content."""
    if not path.is_file():
        raise ZooError(f"There is no file {path}.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ZooError(f"{path} is not a text file in UTF-8.") from error


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file without leading and trailing white space.

    Raises ZooError like ``read_text``.
    """
    return [line.strip() for line in read_text(path).removesuffix("\n").split("\n")]


def read_records(path: Path) -> list[Record]:
    """JSON objects of a log, one per line; blank lines are skipped.

    Raises ZooError for a missing or empty file and for a line that is not a JSON object.
    """
    records: list[Record] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ZooError(f"{path}, line {number}, is not JSON: {error.msg}.") from error
        if not isinstance(record, dict):
            raise ZooError(f"{path}, line {number}, is not a JSON object.")
        records.append(record)
    if not records:
        raise ZooError(f"{path} is empty.")
    return records


def json_lines(records: Iterable[Record]) -> str:
    """Text of a file with one JSON object per line."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def recording_name(path: str) -> str:
    """``a/2022.acl-long.110.wav`` -> ``2022.acl-long.110``: without folder and audio suffix."""
    base = Path(path).name
    return base.rpartition(".")[0] if base.lower().endswith(AUDIO_SUFFIXES) else base


def milliseconds(times: Iterable[Seconds]) -> list[float]:
    """Seconds as milliseconds with six decimals."""
    return [round(time * MS, 6) for time in times]
