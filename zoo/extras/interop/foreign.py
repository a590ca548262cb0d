"""What agents of SimulEval and processors of simulstream have in common as systems of the zoo."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from zoo.base.errors import ZooError
from zoo.base.types import Action, Samples, Seconds, SpeechChunk
from zoo.systems.system import System


@dataclass(slots=True, weakref_slot=True, eq=False)
class ForeignStream:
    """One stream through an agent or a processor.

    Attributes:
        part: The agent or processor, which serves no other stream until this one ends.
        source_ended: Whether the last chunk has been received.
        received: Samples received so far.
        text: Text written so far.
        tokens: Tokens of the text, of tools that write tokens.
    """

    part: Any
    source_ended: bool = False
    received: Samples = 0
    text: str = ""
    tokens: list[str] = field(default_factory=list)


class ForeignSystem(System):
    """A system that another tool implements, on the clock of the zoo.

    Agents and processors keep the state of a stream in themselves. Each live stream therefore has
    one of its own, which serves the next stream afterwards; ``evaluation.batch_size`` above 1
    creates as many.

    Args:
        package: Python package of the tool.
        install: The command that installs it.
        **options: Arguments of ``System``.
    """

    def __init__(self, *, package: str, install: str, **options: Any) -> None:
        super().__init__(**options)
        self._package, self._install = package, install
        self._free: list[Any] = []  # parts without a stream
        self._ends: dict[int, weakref.finalize[..., Any]] = {}  # by id of the stream

    def check_package(self) -> None:
        """Raise ZooError if the package is not installed."""
        if find_spec(self._package) is None:
            raise ZooError(
                f"system {self.name!r} needs the package {self._package}, which is not installed; "
                f"run: {self._install} (see docs/interop.md)."
            )

    def create(self) -> Any:
        """Create an agent or processor, with its weights. Raises ZooError for a mistake."""
        raise NotImplementedError

    def advance(self, stream: ForeignStream, chunk: SpeechChunk) -> Action:
        """Return the output of one stream for its next chunk."""
        raise NotImplementedError

    def load(self) -> None:
        """Create the agent or processor of the first stream, once."""
        if not self._free and not self._ends:
            self._free.append(self.create())

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> ForeignStream:
        """Open a stream; see ``System``."""
        part = self._free.pop() if self._free else self.create()
        stream = ForeignStream(part)
        # a stream that never ends returns its part when it is dropped
        self._ends[id(stream)] = weakref.finalize(stream, self._return, id(stream), part)
        return stream

    def step(
        self, sessions: Sequence[ForeignStream], chunks: Sequence[SpeechChunk]
    ) -> list[Action]:
        """Process one chunk of each stream, one stream after the other; see ``System``."""
        actions = []
        for stream, chunk in zip(sessions, chunks, strict=True):
            stream.source_ended = chunk.final
            stream.received += chunk.samples.numel()
            actions.append(self.advance(stream, chunk))
            if chunk.final:
                self._ends[id(stream)]()
        return actions

    def _return(self, stream: int, part: Any) -> None:
        """Make the part of a stream available for the next one."""
        del self._ends[stream]
        self._free.append(part)
