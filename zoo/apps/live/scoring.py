"""Running StreamLAAL of streams whose talk is known, computed in a process of its own.

``python -m zoo.apps.live.scoring`` reads a stream per line from stdin and writes its scores as a
line to stdout. The re-segmentation of a long talk takes seconds in which Python's lock is held: in
the process of the server, no stream would advance.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, replace
from typing import TYPE_CHECKING, Any

from zoo.apps.live.child import end_child, start_child
from zoo.apps.live.faults import log_faults
from zoo.base.errors import ZooError
from zoo.base.languages import Language, language
from zoo.base.types import ChunkTime, Instance, Seconds
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.running import running_latency

if TYPE_CHECKING:  # these import networks, which the process that scores does not need
    from zoo.apps.live.wire import Scores
    from zoo.streaming.simulate import Stream

logger = logging.getLogger(__name__)
EVERY: Seconds = 5.0  # shortest time between two scores of a stream
SHARE = 10  # times as long as a score takes, it rests: long talks are scored less often
PATIENCE: Seconds = 60.0  # longest time for a score
FIELDS = ("text", "units", "delays", "chunk_indices", "source_length", "unit")


class ScoringProcess:
    """The process that scores the streams of a server, one after the other.

    It is started for the first stream, and again if it has ended.
    """

    def __init__(self) -> None:
        self._is_open = True
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    async def score(self, question: dict[str, Any]) -> "Scores | None":
        """Return the scores of a stream; None: the process has failed or ended.

        Args:
            question: Stream and references, as ``StreamScoring`` writes them.
        """
        line = json.dumps(question).encode() + b"\n"
        async with self._lock:
            if not self._is_open:
                return None
            try:
                async with asyncio.timeout(PATIENCE):
                    return await self._answer(line)
            except (OSError, ValueError, TimeoutError) as error:
                if self._is_open:
                    logger.error("A stream cannot be scored: %s", error or type(error).__name__)
                await self._end()
                return None

    async def close(self) -> None:
        """End the process, also while it scores."""
        self._is_open = False
        await self._end()

    async def _answer(self, line: bytes) -> "Scores | None":
        """Send a line and return the answer. Raises ValueError if the process ends instead."""
        if self._process is None or self._process.returncode is not None:
            self._process = await start_child("zoo.apps.live.scoring")
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        await process.stdin.drain()
        answer: Scores | None = json.loads(await process.stdout.readline())
        return answer

    async def _end(self) -> None:
        process, self._process = self._process, None
        await end_child(process)


class StreamScoring:
    """When a stream is scored, and what is sent to the process.

    Args:
        process: Process of the server.
        references: Reference segments of the talk.
        target: Target language.
    """

    def __init__(
        self, process: ScoringProcess, references: Sequence[ReferenceSegment], target: Language
    ) -> None:
        self._process = process
        self._references = references
        self._target = target
        self._lock = asyncio.Lock()
        self._busy = False
        self._next = time.monotonic() + EVERY

    def copy_if_due(self, stream: "Stream", *, final: bool) -> "Stream | None":
        """Return a copy of a stream to score; None: it is too early, or one is being scored.

        Called on the thread that changes the stream.

        Args:
            stream: The stream after a chunk.
            final: Whether it has ended, so that it is scored in any case.
        """
        if not final and (self._busy or time.monotonic() < self._next):
            return None
        self._busy = True
        return replace(
            stream, emissions=list(stream.emissions), times=list(stream.times), events=[]
        )

    async def score(self, copy: "Stream", *, final: bool) -> "Scores | None":
        """Return the scores of a copy; None: there are none.

        Args:
            copy: What ``copy_if_due`` has returned.
            final: Whether the stream has ended.
        """
        begun = time.monotonic()
        scores: Scores | None = None
        async with self._lock:  # the final scores come after those before
            with log_faults("A stream cannot be scored"):
                question = await asyncio.to_thread(self._ask, copy, final=final)
                scores = await self._process.score(question)
            now = time.monotonic()
            self._next = max(begun + EVERY, now + SHARE * (now - begun))
            self._busy = False
        return scores

    def _ask(self, copy: "Stream", *, final: bool) -> dict[str, Any]:
        from zoo.streaming.simulate import to_instance

        instance = to_instance(copy, self._target, batched=True)
        return {
            "stream": {name: getattr(instance, name) for name in FIELDS},
            "chunks": [astuple(chunk) for chunk in instance.chunks],
            "references": [asdict(segment) for segment in self._references],
            "language": self._target.code,
            "final": final,
        }


def answer(question: dict[str, Any]) -> "Scores | None":
    """Return the scores of a stream; None: it cannot be scored.

    Args:
        question: What ``StreamScoring`` asks.
    """
    instance = Instance(
        index=0,
        talk="",
        reference="",
        elapsed=(),
        chunks=tuple(ChunkTime(*chunk) for chunk in question["chunks"]),
        **question["stream"],
    )
    try:
        return running_latency(
            instance,
            [ReferenceSegment(**segment) for segment in question["references"]],
            language=language(question["language"]),
            final=question["final"],
        )
    except ZooError:
        return None


def main() -> None:
    """Answer each line of stdin until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which closes stdin
    os.nice(10)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
