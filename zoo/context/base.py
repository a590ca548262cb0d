"""The contract of a context source: what is known of a talk before it is translated."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Context, Hypothesis, Request

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
        self._contexts: dict[Path, Context] = {}  # the streams of an evaluation share files

    def context(self, talk: str) -> Context:
        """Return the context of a talk before its stream begins.

        Args:
            talk: Name of the talk.

        Raises:
            ZooError: The file is missing or cannot be read, or has too much.
        """
        path = self.path_of(talk)
        if path not in self._contexts:
            self._contexts[path] = self.read(path)
        return self._contexts[path]

    def retrieve(self, session: Session) -> Generator[Request, Hypothesis, Context]:
        """Return the context before the next decision of a stream; by default it is constant.

        Args:
            session: The stream, with visible audio.

        Yields:
            Requests to the backbone; the answer of each is sent back.
        """
        return session.context
        yield  # a coroutine without requests

    @abstractmethod
    def read(self, path: Path) -> Context:
        """Read a file.

        Raises:
            ZooError: The file is missing or cannot be read, or has too much.
        """

    def path_of(self, talk: str) -> Path:
        """Return the path of the file of a talk.

        Raises:
            ZooError: ``{talk}`` stands for a name that is no name of a file.
        """
        if TALK not in self.path:
            return Path(self.path).expanduser()
        if talk in ("", ".", "..") or "/" in talk or "\\" in talk:
            raise ZooError(
                f"Talk {talk!r} names no file, so context.path={self.path} is no path; rename the "
                "talk, or name one file for all talks."
            )
        return Path(self.path.replace(TALK, talk)).expanduser()
