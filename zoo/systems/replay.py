"""A recorded log in the place of a system (``system=replay``): its streams are scored again."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from zoo.base.errors import ZooError, check_name
from zoo.base.languages import language
from zoo.base.types import Instance
from zoo.formats.logs import LogFormat, read_log
from zoo.formats.pieces import PieceForm


class Replay:
    """Reads the output of a system from a log file.

    Args:
        log: Path of the log file.
        source_language: Code of the source language.
        target_language: Code of the target language.
        name: Name in results.
        format: Tool that wrote the log.
        pieces: Form of the tokens of a simulstream log: ``words`` (or characters), ``text`` (with
            its spaces), ``sentencepiece``, ``byte_level``, ``wordpiece`` (##), ``end_of_word``
            (</w>) or ``continued`` (@@). None: it is recognised.
    """

    def __init__(
        self,
        *,
        log: str | Path | None,
        source_language: str,
        target_language: str,
        name: str = "replay",
        format: LogFormat = "simuleval",
        pieces: PieceForm | None = None,
    ) -> None:
        check_name("system.name", name)
        self.name = name
        self.log = None if log is None or not str(log).strip() else Path(log)
        self.format = format
        self.pieces = pieces
        self.source_language = language(source_language)
        self.target_language = language(target_language)

    def instances(self) -> Iterator[Instance]:
        """Yield the streams of the log in the order of their index.

        Raises:
            ZooError: No log is configured, or the file does not have the configured format.
        """
        yield from self._instances

    @cached_property
    def _instances(self) -> list[Instance]:
        if self.log is None:
            raise ZooError("system=replay needs system.log, the path of a recorded log.")
        return read_log(
            self.log, language=self.target_language, format=self.format, pieces=self.pieces
        )
