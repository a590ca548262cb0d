"""A live server under clients of all kinds: does it stay up, exact and small?

    python benchmarks/live_stress.py                 3 hours of one stream, 500 other clients
    python benchmarks/live_stress.py --small         seconds

One client streams the test set of minitalks, again and again, as fast as the server processes it.
Meanwhile other clients come one after another, a few at a time, of these kinds: one that translates
a few seconds, one that is killed, one whose network is cut, one that reads nothing, one that sends
garbage, one that sends a message of 10 MB, one with a wrong sample rate, and one without a place.
The words of all that translate must be equal, and the memory of the server must not grow.
"""

import asyncio
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.request import urlopen

import psutil
import torch
from torch import Tensor
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from harness import parser_of, print_result, print_table, recording, rounded
from live_servers import Server, zoo_server
from zoo.machine.commands import run_script
from zoo.types import SAMPLE_RATE, Samples, Seconds

SIZES = {
    "minutes": (180, 1, "audio of the long stream"),
    "clients": (500, 16, "other clients"),
    "threads": (2, 1, "CPU threads of the server"),
}
PIECE: Samples = SAMPLE_RATE  # of a message of the long stream
EXCERPT: Seconds = 4.0  # of audio of a client that translates
LOOP: Seconds = 240.0  # of audio, which the long stream repeats
AT_ONCE = 3  # other clients
PLACES = 1 + 3 * AT_ONCE  # of a client whose network is cut, the server keeps the place for IDLE
PAUSE: Seconds = 0.5  # between two measurements of the memory
IDLE: Seconds = 5.0  # after which the server leaves a client that sends nothing
PATIENCE: Seconds = 300.0  # for one client


@dataclass(slots=True)
class Course:
    """What has happened so far.

    Attributes:
        audio: Audio (n,) of minitalks, 16-bit samples.
        ended: Number of clients of each kind that have ended as they should.
        texts: Text of each client that has translated.
        memory: Resident memory of the server in MB, in the order of time.
        problems: Clients that have ended in another way, in a sentence each.
        words: Number of words of the long stream.
    """

    audio: Tensor
    ended: Counter[str] = field(default_factory=Counter)
    texts: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    words: int = 0

    @property
    def excerpt(self) -> bytes:
        """The bytes of the audio of a client that translates."""
        return self.audio[: round(EXCERPT * SAMPLE_RATE)].numpy().tobytes()


Client = Callable[[Course, ClientConnection], Awaitable[None]]


async def text_of(socket: ClientConnection) -> str:
    """Return the text of a stream that has ended."""
    text = ""
    async for message in socket:
        data = json.loads(message)
        text += data.get("new", "")
        if "end_of_processing" in data:
            return text
    raise ValueError("the server has closed the connection of a stream")


async def translating(course: Course, socket: ClientConnection) -> None:
    """Translate the excerpt."""
    await socket.send(course.excerpt)
    await socket.send(json.dumps({"end_of_stream": True}))
    course.texts.append(await text_of(socket))


async def killed(course: Course, socket: ClientConnection) -> None:
    """Break the connection while the server works."""
    await socket.send(course.excerpt)
    socket.transport.abort()


async def cut(course: Course, socket: ClientConnection) -> None:
    """Send nothing more, and read nothing, for longer than the server waits."""
    await socket.send(course.excerpt)
    socket.transport.pause_reading()
    await asyncio.sleep(IDLE + 2)
    socket.transport.abort()


async def unread(course: Course, socket: ClientConnection) -> None:
    """Ask for many answers and read none of them."""
    socket.transport.pause_reading()
    with suppress(ConnectionClosed, TimeoutError):
        async with asyncio.timeout(IDLE):
            for _ in range(2000):
                if socket.transport.is_closing():
                    break
                await socket.send("nonsense")
    socket.transport.abort()


async def garbage(course: Course, socket: ClientConnection) -> None:
    """Send what is no message; each gets an answer, and the stream goes on."""
    for message in ("{", "[]", '{"end_of', b"\x01", "\x00" * 100):
        await socket.send(message)
        if "error" not in json.loads(await socket.recv()):
            raise ValueError(f"{message!r} was accepted")
    await translating(course, socket)


async def huge(course: Course, socket: ClientConnection) -> None:
    """Send a message of 10 MB, after which the server closes the connection."""
    with suppress(ConnectionClosed):
        await socket.send(bytes(10_000_000))
        await socket.recv()
        raise ValueError("a message of 10 MB was accepted")


async def wrong_rate(course: Course, socket: ClientConnection) -> None:
    """Name impossible sample rates, then translate."""
    for rate in (0, -16000, 10**9, "fast", None, [16000]):
        await socket.send(json.dumps({"sample_rate": rate}))
        if rate is not None and "error" not in json.loads(await socket.recv()):
            raise ValueError(f"a sample rate of {rate!r} was accepted")
    await translating(course, socket)


KINDS: dict[str, Client] = {
    "translates": translating,
    "killed": killed,
    "network cut": cut,
    "reads nothing": unread,
    "garbage": garbage,
    "10 MB": huge,
    "wrong sample rate": wrong_rate,
}


async def long_stream(course: Course, server: Server, *, minutes: float) -> None:
    """Stream the audio again and again, as fast as the server reads it."""
    left = round(60 * minutes * SAMPLE_RATE)
    async with connect(server.url, ping_timeout=None) as socket:
        receiving = asyncio.create_task(text_of(socket))
        for piece in itertools.cycle(course.audio.split(PIECE)):
            if left <= 0:
                break
            await socket.send(piece[:left].numpy().tobytes())
            left -= len(piece)
        await socket.send(json.dumps({"end_of_stream": True}))
        course.words = len((await receiving).split())


async def come(course: Course, server: Server, kinds: Iterator[str]) -> None:
    """Let clients come one after another."""
    for kind in kinds:
        try:
            async with asyncio.timeout(PATIENCE):
                async with connect(server.url, max_queue=1, ping_timeout=None) as socket:
                    await KINDS[kind](course, socket)
        except (OSError, ValueError, KeyError, TimeoutError, WebSocketException) as problem:
            course.problems.append(f"{kind}: {type(problem).__name__} {problem}")
        else:
            course.ended[kind] += 1


async def refused(course: Course, server: Server) -> None:
    """Take all places, and come once more: the server must refuse with a sentence."""
    async with asyncio.timeout(PATIENCE):
        sockets = [await connect(server.url) for _ in range(PLACES)]
        async with connect(server.url) as socket:
            if "places" in json.loads(await socket.recv())["error"]:
                course.ended["without a place"] += 1
        for socket in sockets:
            await socket.close()


async def watch(course: Course, server: Server) -> None:
    """Measure the memory of the server until the task is cancelled."""
    process = psutil.Process(server.process)
    while True:
        course.memory.append(process.memory_info().rss / 1e6)
        await asyncio.sleep(PAUSE)


async def run(course: Course, server: Server, *, minutes: float, clients: int) -> None:
    """Run all clients to their ends."""
    await refused(course, server)
    watching = asyncio.create_task(watch(course, server))
    kinds = itertools.islice(itertools.cycle(KINDS), clients)
    await asyncio.gather(
        long_stream(course, server, minutes=minutes),
        *(come(course, server, kinds) for _ in range(AT_ONCE)),
    )
    watching.cancel()


def main() -> None:
    """Start a server, let all clients come, and print what has become of them."""
    typed = parser_of(__doc__, SIZES).parse_args()
    audio = (recording(min(LOOP, 60 * typed.minutes)) * 32767).to(torch.int16)
    course = Course(audio)
    limits = [
        f"limits.streams={PLACES}",
        f"limits.idle_seconds={IDLE}",
        "limits.unread_messages=50",
    ]
    begun = time.monotonic()
    with zoo_server([f"threads={typed.threads}", *limits]) as server:
        asyncio.run(run(course, server, minutes=typed.minutes, clients=typed.clients))
        with urlopen(server.url.replace("ws:", "http:") + "health") as answer:
            is_ready = json.load(answer)["status"] == "ready"
    quarter = len(course.memory) // 4
    first, last = course.memory[quarter : 2 * quarter], course.memory[-quarter:]
    facts = {
        "memory_mb": statistics.median(last),
        "memory_growth": statistics.median(last) / statistics.median(first),
    }
    texts = Counter(course.texts)
    rows = [[kind, str(count)] for kind, count in course.ended.items()]
    print_table(["clients", "ended as they should"], rows)
    for problem in course.problems:
        print(problem)
    print(f"long stream: {typed.minutes} minutes of audio in {time.monotonic() - begun:.0f} s")
    print(f"different texts of {len(course.texts)} clients that translated: {len(texts)}")
    settings = {"minutes": typed.minutes, "clients": typed.clients, "threads": typed.threads}
    outcome = {
        "is_ready": is_ready,
        "problems": len(course.problems),
        "different_texts": len(texts),
        "words": course.words,
    }
    print_result("live_stress", settings, outcome, rounded(facts))


if __name__ == "__main__":
    run_script(main)
