"""A live server among clients of all kinds: does it stay up, exact and small?

    python benchmarks/live_stress.py                        a stream of 10 minutes at real time
    python benchmarks/live_stress.py --minutes 180 --fast   3 hours, as fast as the server reads
    python benchmarks/live_stress.py --small                about a minute

One client streams the test set of minitalks, again and again: first alone, then among others
(``live_guests.py``), which come one after another, a few at a time, until the stream has ended:
some translate, some are killed, cut off or wrong, and some attack. The server may open 256 files.

The words must be those of the stream that was alone, and those of all others that translate must be
equal; the log of the stream must be written each minute; the memory of the server must not grow,
``/health`` must answer, and its log must have no traceback.
"""

import asyncio
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import psutil
import torch
from torch import Tensor
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from harness import MINUTE, parser_of, print_result, print_table, recording, rounded
from live_guests import GUESTS, IDLE, STRANGERS, come, text_of
from live_servers import Server, zoo_server
from zoo.base.machine.commands import run_script
from zoo.base.types import SAMPLE_RATE, Samples, Seconds

SIZES = {
    "minutes": (10, 1, "audio of the long stream"),
    "threads": (1, 1, "CPU threads of the server"),
}
FILES = 256  # that the server may open
PIECE: Samples = SAMPLE_RATE  # of a message of the long stream
EXCERPT: Seconds = 4.0  # of audio of a client that translates
LOOP: Seconds = 240.0  # of audio, which the long stream repeats
AT_ONCE = 4  # other clients
PLACES = 1 + 3 * AT_ONCE  # of a client whose network is cut, the server keeps the place for IDLE
PAUSE: Seconds = 0.5  # between two measurements
PATIENCE: Seconds = 300.0  # for one client
GROWTH = 100.0  # MB, most of the memory
ANSWER: Seconds = 1.0  # longest time of /health, 95th percentile
SAVED: Seconds = 90.0  # longest time without a log of the long stream


@dataclass(slots=True)
class Course:
    """What has happened so far.

    Attributes:
        audio: Audio (n,) of minitalks, 16-bit samples.
        ended: Number of clients of each kind that have ended as they should.
        texts: Text of each client that has translated.
        memory: Resident memory of the server in MB, in the order of time.
        answers: Seconds that ``/health`` has taken.
        unsaved: Longest time without a log of the long stream.
        problems: What has gone wrong, in a sentence each.
        is_over: Whether the long stream has ended.
    """

    audio: Tensor
    ended: Counter[str] = field(default_factory=Counter)
    texts: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    answers: list[Seconds] = field(default_factory=list)
    unsaved: Seconds = 0.0
    problems: list[str] = field(default_factory=list)
    is_over: bool = False

    @property
    def excerpt(self) -> bytes:
        """The bytes of the audio of a client that translates."""
        return self.audio[: round(EXCERPT * SAMPLE_RATE)].numpy().tobytes()

    @property
    def growth(self) -> float:
        """MB by which the memory has grown since the first clients."""
        tenth = max(1, len(self.memory) // 10)
        return statistics.median(self.memory[-tenth:]) - statistics.median(self.memory[:tenth])


async def long_stream(
    course: Course, server: Server, *, minutes: float, fast: bool
) -> tuple[str, Seconds]:
    """Stream the audio again and again; return the text and the time that it took."""
    left = round(MINUTE * minutes * SAMPLE_RATE)
    begun = time.monotonic()
    async with connect(server.url, ping_timeout=None) as socket:
        receiving = asyncio.create_task(text_of(socket))
        sent = 0
        for piece in itertools.cycle(course.audio.split(PIECE)):
            if left <= 0 or receiving.done():
                break
            if not fast:
                await asyncio.sleep(begun + sent / SAMPLE_RATE - time.monotonic())
            sent += len(piece[:left])
            await socket.send(piece[:left].numpy().tobytes())
            left -= len(piece)
        await socket.send(json.dumps({"end_of_stream": True}))
        return await receiving, time.monotonic() - begun


async def visit(course: Course, server: Server, kinds: Iterator[str]) -> None:
    """Let clients come one after another until the stream is over and all kinds have come."""
    for kind in kinds:
        if course.is_over and len(course.ended) + len(course.problems) >= len(GUESTS | STRANGERS):
            return
        try:
            async with asyncio.timeout(PATIENCE):
                text = await come(server.url, kind, course.excerpt)
        except (OSError, ValueError, KeyError, TimeoutError, WebSocketException) as problem:
            course.problems.append(f"{kind}: {type(problem).__name__} {problem}")
            await asyncio.sleep(PAUSE)
        else:
            course.ended[kind] += 1
            if text is not None:
                course.texts.append(text)


async def refused(course: Course, server: Server) -> None:
    """Take all places, and come once more: the server must refuse with a sentence."""
    async with asyncio.timeout(PATIENCE):
        sockets = [await connect(server.url) for _ in range(PLACES)]
        async with connect(server.url) as socket:
            if "places" in json.loads(await socket.recv())["error"]:
                course.ended["without a place"] += 1
        for socket in sockets:
            await socket.close()


async def watch(course: Course, server: Server, log: Path) -> None:
    """Measure the server until the task is cancelled."""
    process = psutil.Process(server.process)
    saved = time.time()
    while True:
        course.memory.append(process.memory_info().rss / 1e6)
        course.answers.append(await asyncio.to_thread(answer, server))
        if log.is_file():
            saved = max(saved, log.stat().st_mtime)
        course.unsaved = max(course.unsaved, time.time() - saved)
        await asyncio.sleep(PAUSE)


def answer(server: Server) -> Seconds:
    """Return how long ``/health`` takes; a server that does not answer takes ``PATIENCE``."""
    begun = time.monotonic()
    with suppress(OSError), urlopen(server.url.replace("ws:", "http:") + "health", timeout=30):
        return time.monotonic() - begun
    return PATIENCE


async def run(course: Course, server: Server, *, minutes: float, fast: bool) -> None:
    """Run all clients to their ends."""
    await refused(course, server)
    alone, _ = await long_stream(course, server, minutes=minutes, fast=True)
    # The server numbers its streams, and writes the log of one after its end; the next one is the
    # long one.
    while not (ended := list(server.logs.glob("stream-*/instances.log"))):
        await asyncio.sleep(PAUSE)
    number = len(ended)
    log = server.logs / f"stream-{number:06d}" / "instances.log"
    among = asyncio.create_task(long_stream(course, server, minutes=minutes, fast=fast))
    watching = asyncio.create_task(watch(course, server, log))
    await asyncio.sleep(PAUSE)
    kinds = itertools.cycle(GUESTS | STRANGERS)
    visiting = [asyncio.create_task(visit(course, server, kinds)) for _ in range(AT_ONCE)]
    try:
        text, _ = await among
    except (OSError, ValueError, WebSocketException) as problem:
        text = ""
        course.problems.append(f"the long stream: {problem}")
    course.is_over = True
    await asyncio.gather(*visiting)
    watching.cancel()
    check(course, server, log, alone=alone, among=text)


def check(course: Course, server: Server, log: Path, *, alone: str, among: str) -> None:
    """Note what the server has not kept."""
    problems = {
        "the long stream has other words than alone": among != alone or not alone.split(),
        "clients that translated have different words": len(set(course.texts)) != 1,
        f"the memory has grown by {course.growth:.0f} MB": course.growth > GROWTH,
        "/health was slow": np.quantile(course.answers, 0.95) > ANSWER,
        f"no log was written for {course.unsaved:.0f} s": course.unsaved > SAVED,
        "the long stream has no log": not log.is_file(),
        "a log has a traceback": any(
            "Traceback" in file.read_text(encoding="utf-8") for file in server.messages
        ),
    }
    course.problems += [sentence for sentence, holds in problems.items() if holds]


def main() -> None:
    """Start a server, let all clients come, and print what has become of them."""
    parser = parser_of(__doc__, SIZES)
    parser.add_argument("--fast", action="store_true", help="stream faster than at real time")
    typed = parser.parse_args()
    audio = (recording(min(LOOP, MINUTE * typed.minutes)) * 32767).to(torch.int16)
    course = Course(audio)
    limits = [
        f"limits.streams={PLACES}",
        f"limits.idle_seconds={IDLE}",
        "limits.streams_per_minute=100000",  # all clients have one address
        "limits.unread_messages=50",
    ]
    begun = time.monotonic()
    fast = typed.fast or typed.small
    with zoo_server([f"threads={typed.threads}", *limits], files=FILES) as server:
        asyncio.run(run(course, server, minutes=typed.minutes, fast=fast))
        is_ready = answer(server) < PATIENCE

    rows = [[kind, str(count)] for kind, count in course.ended.items()]
    print_table(["clients", "ended as they should"], rows)
    for problem in course.problems:
        print(problem)
    quarters = np.array_split(course.memory, 4)
    print("memory by quarter:", ", ".join(f"{np.median(one):.0f}" for one in quarters), "MB")
    print(f"{typed.minutes} minutes of audio, twice, in {time.monotonic() - begun:.0f} s")
    settings = {"minutes": typed.minutes, "fast": fast, "threads": typed.threads}
    outcome = {"is_ready": is_ready, "problems": len(course.problems)}
    facts = {
        "memory_mb": course.memory[-1],
        "memory_growth_mb": course.growth,
        "health_p95_s": float(np.quantile(course.answers, 0.95)),
        "unsaved_s": course.unsaved,
    }
    print_result("live_stress", settings, outcome, rounded(facts))


if __name__ == "__main__":
    run_script(main)
