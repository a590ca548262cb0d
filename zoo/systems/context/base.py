"""The contract of a context source: what is known of a talk before it is translated."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import ClassVar

from zoo.base.errors import ZooError
from zoo.base.types import Capability, Context, Hypothesis, Request
from zoo.streaming.session import Session


class ContextSource(ABC):
    """Reads the context of a talk from a file.

    The constructor accesses no disk.

    Args:
        path: A file, or a folder with a file of each talk, which has the talk's name.

    Attributes:
        needs: Capabilities that the backbone must expose.
        suffixes: Suffixes of the files in a folder.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CONTEXT})
    suffixes: ClassVar[Sequence[str]]

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
            ZooError: A folder has no file of the talk.
        """
        path = Path(self.path).expanduser()
        if not path.is_dir():
            return path
        names = [f"{talk}{suffix}" for suffix in self.suffixes]
        for name in names:
            if Path(name).name == name and (path / name).is_file():  # "../a" names no file of it
                return path / name
        raise ZooError(
            f"The folder {path} of context.path has no file of talk {talk!r}: {' or '.join(names)}."
        )
