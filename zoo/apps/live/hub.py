"""What all connections of a server share: systems, engine, limits, counters and logs."""

import asyncio
import itertools
import reprlib
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from zoo.apps.live.engine import Engine, Listener, ServedStream
from zoo.apps.live.faults import log_faults
from zoo.apps.live.logs import write_stream
from zoo.apps.live.scoring import ScoringProcess
from zoo.apps.live.settings import Limits
from zoo.base.errors import LONGEST_VALUE, ZooError
from zoo.base.talks import Talk
from zoo.base.types import Seconds
from zoo.systems.base import StreamingSystem

MINUTE: Seconds = 60.0
SAVE_INTERVAL: Seconds = 60.0  # between two logs of a stream that runs
_shown = reprlib.Repr()  # of what a client sends: short and flat, however long and nested it is
_shown.maxstring = LONGEST_VALUE


@dataclass(frozen=True, slots=True)
class KnownAudio:
    """What is known of the audio of a stream.

    Attributes:
        talk: Talk that it is; None: unknown.
        recording: Its name in the log; None: that of the stream.
    """

    talk: Talk | None = None
    recording: str | None = None


class Hub:
    """The shared part of a server.

    Args:
        systems: Loaded systems by name, at least one; the first one is the default. Those of one
            name differ in the value of their latency knob alone.
        limits: Limits of the server.
        folder: Existing folder of the logs.
        talks: Talks with audio that clients may name.

    Attributes:
        systems: Systems by name.
        limits: Limits of the server.
        talks: Talks by name.
        engine: Engine of all streams.
        scoring: Scores the streams whose talk is known.
        counters: Streams by how they ended, and refused clients.
        connections: Number of clients that are connected.
    """

    def __init__(
        self,
        systems: Mapping[str, Sequence[StreamingSystem]],
        *,
        limits: Limits,
        folder: Path,
        talks: Sequence[Talk] = (),
    ) -> None:
        self.systems = systems
        self.limits = limits
        self.talks = {talk.name: talk for talk in talks}
        self.engine = Engine(batch_size=limits.batch_size)
        self.scoring = ScoringProcess()
        self.counters: Counter[str] = Counter()
        self.connections = 0
        self._folder = folder
        self._numbers = itertools.count()
        self._begun: deque[tuple[Seconds, str]] = deque()  # streams of the last minute
        self._running: dict[ServedStream, KnownAudio] = {}
        self._writing = threading.Lock()
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

    def system(
        self, name: object, source: object, target: object, latency: object = None
    ) -> StreamingSystem:
        """Return a system.

        Args:
            name: Its name; None: any, the first that has the languages.
            source: Code of the source language; None: any.
            target: Code of the target language; None: any.
            latency: Value of its latency knob; None: the first.

        Raises:
            ZooError: There is no such system.
        """
        fitting = [
            system
            for key, systems in self.systems.items()
            for system in systems
            if name in (None, key)
            and source in (None, system.source_language.code)
            and target in (None, system.target_language.code)
            and latency in (None, system.knob_value)
        ]
        if fitting:
            return fitting[0]
        choices = ", ".join(_describe(name, systems) for name, systems in self.systems.items())
        asked = ", ".join(
            f"{kind} {_shown.repr(value)}"
            for kind, value in (
                ("system", name),
                ("source", source),
                ("target", target),
                ("latency", latency),
            )
            if value is not None
        )
        raise ZooError(f"This server has no {asked}; it has: {choices}.")

    def talk(self, name: object) -> Talk | None:
        """Return a talk; None for the name "" and for None.

        Raises:
            ZooError: There is no such talk.
        """
        if name is None or name == "":
            return None
        if not isinstance(name, str) or name not in self.talks:
            choices = ", ".join(self.talks) or "none"
            raise ZooError(f"This server has no talk {_shown.repr(name)}; it has: {choices}.")
        return self.talks[name]

    def open(
        self, system: StreamingSystem, listener: Listener, audio: KnownAudio, *, client: str
    ) -> ServedStream:
        """Open a stream with a new name.

        Args:
            system: Loaded system.
            listener: Called on the thread of the engine after each chunk.
            audio: What is known of the audio.
            client: Address of the client.

        Raises:
            ZooError: The client has begun too many streams.
        """
        self._count(client)
        name = f"stream-{next(self._numbers):06d}"
        served = self.engine.open(system, name, listener)
        self._running[served] = audio
        return served

    def release(self, served: ServedStream) -> None:
        """Remove a stream that has ended or whose client has left, and write its log.

        This goes on in a task of the hub: the connection may be cancelled at any time.
        """
        closing = asyncio.to_thread(self._close, served, self._running.pop(served))
        task = asyncio.get_running_loop().create_task(closing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def save(self) -> None:
        """Write the logs of the streams that run, without target speech, every ``SAVE_INTERVAL``.

        A process that is killed loses no more than that of its streams.
        """
        while True:
            await asyncio.sleep(SAVE_INTERVAL)
            for served, audio in tuple(self._running.items()):
                with log_faults(f"The log of {served.stream.source.talk} cannot be written"):
                    await asyncio.to_thread(self._save, served, audio)

    async def finish(self) -> None:
        """Wait for the logs of all clients that have left, and end the engine."""
        await asyncio.gather(*self._tasks)
        await self.scoring.close()
        await asyncio.to_thread(self.engine.close)

    def _count(self, client: str) -> None:
        """Count a stream of a client. Raises ZooError if it has begun too many."""
        now = time.monotonic()
        while self._begun and self._begun[0][0] < now - MINUTE:
            self._begun.popleft()
        most = self.limits.streams_per_minute
        if sum(one == client for _, one in self._begun) >= most:
            self.counters["refused"] += 1
            raise ZooError(f"A client begins at most {most} streams a minute on this server.")
        self._begun.append((now, client))

    def _close(self, served: ServedStream, audio: KnownAudio) -> None:
        """Count a stream by how it has ended, and write what it has emitted."""
        self.engine.leave(served)
        self.counters["ended" if served.stream.session.source_ended else "left"] += 1
        with log_faults(f"The log of {served.stream.source.talk} cannot be written"), self._writing:
            self._write(served, audio, with_speech=True)

    def _save(self, served: ServedStream, audio: KnownAudio) -> None:
        """Write what a stream has emitted so far, unless it has ended in the meantime."""
        copy = self.engine.copy(served)
        with self._writing:
            if served in self._running:
                self._write(copy, audio, with_speech=False)

    def _write(self, served: ServedStream, audio: KnownAudio, *, with_speech: bool) -> None:
        """Write the log of a stream, if it has processed a chunk."""
        if not served.stream.times:
            return
        folder = self._folder / served.stream.source.talk
        (name,) = [key for key, systems in self.systems.items() if served.system in systems]
        instance = served.instance()
        if audio.recording is not None:
            instance = replace(instance, talk=audio.recording)
        if not with_speech:
            instance = replace(instance, speech=())
        folder.mkdir(parents=True, exist_ok=True)
        write_stream(folder, instance, audio.talk, served.system, name=name)


def _describe(name: str, systems: Sequence[StreamingSystem]) -> str:
    """Return name, languages and latencies of a system, such as ``infinisst (en-de, m=1, 2)``."""
    first = systems[0]
    if first.knob is None or first.knob_value is None:
        return f"{name} ({first.direction})"
    values = ", ".join(f"{system.knob_value:g}" for system in systems)
    return f"{name} ({first.direction}, {first.knob.name}={values})"
