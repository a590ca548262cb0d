"""A stream in several sittings: its measurements by chunk, and the session, in a folder.

An interrupted stream goes on after the last saved chunk with the saved session, as if it had not
been interrupted. The session is a file of tensors and numbers that torch reads with
``weights_only``.
"""

import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from zoo.errors import ZooError
from zoo.files import atomic_file, write_text
from zoo.languages import Language
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem
from zoo.types import Action, Seconds, SpeechChunk

LINES, SESSION, SETTINGS = "chunks.jsonl", "session.pt", "settings.json"
FLUSHED = 100  # lines that are written at once if no session is saved
OPENED = ("text_stream", "source_language", "target_language")  # ``system.open`` restores them


@dataclass(frozen=True, slots=True)
class ChunkLine:
    """What was measured after a chunk.

    Attributes:
        arrival: End of the chunk in seconds from the start of the stream.
        compute: Seconds of compute.
        cpu: Seconds of compute in which the first thread ran on a CPU.
        text: Text that was written.
        memory: Resident memory of the process in MB.
        audio: Audio kept in seconds.
        tokens: Number of tokens kept.
    """

    arrival: Seconds
    compute: Seconds
    cpu: Seconds
    text: str
    memory: float
    audio: Seconds
    tokens: int


@dataclass(frozen=True, slots=True)
class OpenedSystem:
    """A system whose one session is open already, for ``simulate``."""

    system: StreamingSystem
    session: Session

    @property
    def target_language(self) -> Language:
        """Language of the translation."""
        return self.system.target_language

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> Session:
        """Return the open session, whatever the talk."""
        return self.session

    def step(self, sessions: Sequence[Session], chunks: Sequence[SpeechChunk]) -> list[Action]:
        """Process a chunk."""
        return self.system.step(sessions, chunks)


class Sittings:
    """The folder of a stream.

    Args:
        folder: Folder, created if absent.
        settings: Settings of the stream, which must stay the same.
        save_chunks: Number of chunks after which the session is saved. None: never.

    Raises:
        ZooError: The folder belongs to a stream of other settings.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], *, save_chunks: int | None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._save_chunks = folder, save_chunks
        self._new: list[ChunkLine] = []  # not saved yet
        self._chunks = 0  # lines of the stream, saved or not
        known, text = folder / SETTINGS, json.dumps(settings)
        if known.is_file() and known.read_text(encoding="utf-8") != text:
            raise ZooError(
                f"{folder} has a stream of other settings, {known.read_text(encoding='utf-8')}; "
                "name another --folder."
            )
        write_text(known, text)

    def lines(self, first: int | None = None) -> Iterator[ChunkLine]:
        """Yield the saved lines, or the first ones of them."""
        path = self.folder / LINES
        if path.is_file():
            with path.open(encoding="utf-8") as file:
                for line in islice(file, first):
                    yield ChunkLine(**json.loads(line))

    def resume(self, session: Session) -> int:
        """Restore the session after the last saved chunk and delete later lines.

        Args:
            session: The session that ``system.open`` returned, changed in place.

        Returns:
            Number of chunks that the session has received; 0 if none was saved.

        Raises:
            ZooError: The state of the session has parts that cannot be saved.
        """
        if self._save_chunks is None:
            return 0
        path = self.folder / SESSION
        if not path.is_file():
            self._save_session(session)  # shows before the stream whether it can be saved
        self._chunks, state = _read_session(path)
        text_stream = state.pop("text_stream")
        for name, value in state.items():
            setattr(session, name, value)
        vars(session.text_stream).update(text_stream)

        kept = [json.dumps(asdict(line)) + "\n" for line in self.lines(self._chunks)]
        write_text(self.folder / LINES, "".join(kept))
        return self._chunks

    def add(self, line: ChunkLine, session: Session) -> None:
        """Add the line of a chunk; save it with the session if enough lines are new.

        After the last chunk of the stream, the lines are saved, but not the session: it has ended,
        and a longer stream must go on before it.
        """
        self._new.append(line)
        self._chunks += 1
        if len(self._new) == (self._save_chunks or FLUSHED) or session.source_ended:
            with (self.folder / LINES).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(line)) + "\n" for line in self._new)
            self._new = []
            if self._save_chunks is not None and not session.source_ended:
                self._save_session(session)

    def _save_session(self, session: Session) -> None:
        """Write the number of chunks and the state of the session.

        Raises:
            ZooError: The state has parts that cannot be saved.
        """
        state = {
            one.name: getattr(session, one.name)
            for one in fields(session)
            if one.name not in OPENED
        }
        text_stream = vars(session.text_stream)
        state["text_stream"] = {
            name: value for name, value in text_stream.items() if not callable(value)
        }
        try:
            with atomic_file(self.folder / SESSION) as part:
                torch.save((self._chunks, state), part)
        except (TypeError, AttributeError, RuntimeError) as error:
            raise ZooError(
                f"The session cannot be saved ({error}), so that this system has no --folder."
            ) from error


def _read_session(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the number of chunks and the attributes of a session; dataclasses of the zoo only.

    Raises:
        ZooError: The file has other classes.
    """
    names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    classes = [pkgutil.resolve_name(name) for name in names if name.startswith("zoo.")]
    if len(classes) < len(names) or not all(map(is_dataclass, classes)):
        raise ZooError(
            f"{path} has more than tensors, numbers and dataclasses of the zoo ("
            f"{', '.join(names)}), so that this system has no --folder."
        )
    with torch.serialization.safe_globals(classes):
        chunks, state = torch.load(path, weights_only=True)
    return chunks, state
