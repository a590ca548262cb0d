"""A recorded log as a source of instances (``system=replay``): nothing is computed. Knows no metric."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from zoo.errors import ZooError
from zoo.formats.logs import LogFormat, read_log
from zoo.languages import language
from zoo.types import Instance


class Replay:
    """Plays back what another system wrote.

    name: of its row. log: path of the file. format: whose log it is. source_language, target_language: codes of what
    was spoken and of what was written.
    """

    def __init__(
        self,
        *,
        log: str | Path | None,
        source_language: str,
        target_language: str,
        name: str = "replay",
        format: LogFormat = "simuleval",
    ) -> None:
        self.name = name
        self.log = None if log is None else Path(log)
        self.format = format
        self.source_language = language(source_language)
        self.target_language = language(target_language)

    def instances(self) -> Iterator[Instance]:
        """The streams of the log, in the order of their index. Raises ZooError for a file that does not fit."""
        yield from self._read

    @cached_property
    def _read(self) -> list[Instance]:
        if self.log is None:
            raise ZooError("system=replay needs system.log, the path of a recorded log.")
        return read_log(self.log, language=self.target_language, format=self.format)
