"""Tables of tab-separated values, without quotes: every character between two tabs is content."""

from collections.abc import Sequence
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.data.readers.entries import at
from zoo.formats.text import read_text


def read_rows(path: Path, *, columns: int | None = None) -> list[tuple[int, list[str]]]:
    """Return the number and the fields of each line that is not blank.

    Args:
        path: the file.
        columns: number of fields of each line; None: that of the first line.

    Raises:
        ZooError: the file is missing, empty or not UTF-8, or a line has another number of fields.
    """
    rows = [
        (number, line.split("\t"))
        for number, line in enumerate(read_text(path).split("\n"), start=1)
        if line.strip()
    ]
    if not rows:
        raise ZooError(f"{path} is empty.")
    width = len(rows[0][1]) if columns is None else columns
    for number, fields in rows:
        if len(fields) != width:
            raise ZooError(f"{at(path, number)} has {len(fields)} columns instead of {width}.")
    return rows


def read_table(path: Path, *, needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Return the number and the fields by name of each line after the heading.

    Args:
        path: the file; its first line has the names of the columns.
        needed: names of columns that must exist.

    Raises:
        ZooError: like ``read_rows``, or a column is missing.
    """
    (_, heading), *rows = read_rows(path)
    missing = [name for name in needed if name not in heading]
    if missing:
        raise ZooError(
            f"{at(path, 1)} has no column {', '.join(missing)}; it has: {', '.join(heading)}."
        )
    return [(number, dict(zip(heading, fields, strict=True))) for number, fields in rows]
