"""What all connections of a server share: systems, engine, limits, counters and logs."""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from zoo.errors import ZooError
from zoo.formats.simuleval import write_log
from zoo.live.engine import Engine, ServedStream
from zoo.live.settings import Limits
from zoo.systems.base import StreamingSystem

logger = logging.getLogger(__name__)


class Hub:
    """The shared part of a server.

    Args:
        systems: Loaded systems by name, at least one; the first one is the default.
        limits: Limits of the server.
        folder: Existing folder of the logs.

    Attributes:
        systems: Systems by name.
        limits: Limits of the server.
        engine: Engine of all streams.
        counters: Streams by how they ended, and refused clients.
        connections: Number of clients that are connected.
    """

    def __init__(
        self, systems: Mapping[str, StreamingSystem], *, limits: Limits, folder: Path
    ) -> None:
        self.systems = systems
        self.limits = limits
        self.engine = Engine(batch_size=limits.batch_size)
        self.counters: Counter[str] = Counter()
        self.connections = 0
        self._folder = folder
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Keep one of the places of the server.

        Raises:
            ZooError: All places are taken.
        """
        if self.connections >= self.limits.streams:
            self.counters["refused"] += 1
            raise ZooError(
                f"All {self.limits.streams} places of this server are taken; try again later."
            )
        self.connections += 1
        try:
            yield
        finally:
            self.connections -= 1

    def system(self, name: object, source: object, target: object) -> StreamingSystem:
        """Return a system.

        Args:
            name: Its name; None: any, the first that has the languages.
            source: Code of the source language; None: any.
            target: Code of the target language; None: any.

        Raises:
            ZooError: There is no such system.
        """
        fitting = [
            system
            for key, system in self.systems.items()
            if name in (None, key)
            and source in (None, system.source_language.code)
            and target in (None, system.target_language.code)
        ]
        if fitting:
            return fitting[0]
        choices = ", ".join(f"{name} ({one.direction})" for name, one in self.systems.items())
        asked = ", ".join(
            f"{kind} {value!r}"
            for kind, value in (("system", name), ("source", source), ("target", target))
            if value is not None
        )
        raise ZooError(f"This server has no {asked}; it has: {choices}.")

    def new_name(self) -> str:
        """Return the name of a new stream."""
        return f"stream-{next(self._numbers):06d}"

    def release(self, served: ServedStream) -> None:
        """Remove a stream that has ended or whose client has left, and write its log.

        This goes on in a task of the hub: the connection may be cancelled at any time.
        """
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._keep, served))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait for the logs of all clients that have left, and end the engine."""
        await asyncio.gather(*self._tasks)
        await asyncio.to_thread(self.engine.close)

    def _keep(self, served: ServedStream) -> None:
        """Count a stream by how it has ended, and write what it has emitted."""
        self.engine.leave(served)
        self.counters["ended" if served.stream.session.source_ended else "left"] += 1
        if not served.stream.times:
            return
        folder = self._folder / served.stream.source.talk
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_log(folder / "instances.log", [served.instance()])
        except OSError as error:
            logger.error("The log of %s cannot be written: %s", folder.name, error)
