"""The contract of a context source: what is known of a talk before it is translated."""

from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import ClassVar

from zoo.errors import ZooError
from zoo.types import Capability, Context

TALK = "{talk}"


class ContextSource(ABC):
    """Reads the context of a talk from a file.

    The constructor accesses no disk.

    Args:
        path: The file; ``{talk}`` in it stands for the name of the talk, so that each talk may have
            a file of its own.

    Attributes:
        needs: Capabilities that the backbone must expose.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CONTEXT})

    def __init__(self, path: str) -> None:
        self.path = path
        self._read_once = cache(self.read)  # the streams of an evaluation share one file

    def context(self, talk: str) -> Context:
        """Return the context of a talk.

        Args:
            talk: Name of the talk.

        Raises:
            ZooError: The file is missing or cannot be read, or has too much.
        """
        if TALK not in self.path:
            return self._read_once(Path(self.path).expanduser())
        if talk in ("", ".", "..") or "/" in talk or "\\" in talk:
            raise ZooError(
                f"Talk {talk!r} names no file, so context.path={self.path} is no path; rename the "
                "talk, or name one file for all talks."
            )
        return self._read_once(Path(self.path.replace(TALK, talk)).expanduser())

    @abstractmethod
    def read(self, path: Path) -> Context:
        """Read a file.

        Raises:
            ZooError: The file is missing or cannot be read, or has too much.
        """
