"""A recorded log as a source of instances (``system=replay``): nothing is computed. Knows no metric."""

from collections.abc import Iterator
from pathlib import Path

from zoo.languages import language
from zoo.report.instance_log import LogFormat, read_log
from zoo.types import Instance


class Replay:
    """Plays back what another system wrote.

    log: path of the file. format: whose log it is. target_language: code of the language it is written in.
    """

    def __init__(self, *, log: str | Path, target_language: str, format: LogFormat = "simuleval") -> None:
        self.log = Path(log)
        self.format = format
        self.target_language = language(target_language)

    def instances(self) -> Iterator[Instance]:
        """The streams of the log, in the order of their index. Raises ZooError for a file that does not fit."""
        yield from read_log(self.log, language=self.target_language, format=self.format)
