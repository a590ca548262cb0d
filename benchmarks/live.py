"""Many users of a live server at once: how late is its output?

    python benchmarks/live.py                        16 users of InfiniSST, a minute each
    python benchmarks/live.py --users 8 system=streamatt
    python benchmarks/live.py --small                seconds

A server (``python -m zoo live``) is started as a process of its own. Each user sends the test set
of minitalks from another place on, in pieces of 80 ms at real time, by simulstream's protocol. The
lateness of an output is the time from the last sample of its chunk to the message, as the user
measures it; the server measures it, too. One user more than the server has places for is refused.

Where the package simulstream is installed, the same users use its server with the same system
afterwards. Without overrides only: its processor has the system's defaults.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from harness import add_overrides, parser_of, print_result, print_table, recording, rounded
from live_servers import simulstream_server, zoo_server
from zoo.base.machine.commands import run_script
from zoo.base.types import SAMPLE_RATE, Samples, Seconds

SYSTEM = "infinisst"
CHUNK: Samples = 30_720  # of InfiniSST, m = 2
PIECE: Samples = CHUNK // 24  # of a message
SIZES = {
    "users": (16, 3, "users at once"),
    "seconds": (60, 6, "audio of each user"),
    "threads": (2, 1, "CPU threads of the server"),
}
APART: Seconds = 7  # between the places at which two users begin
SHARES = {"median": 0.5, "p95": 0.95, "max": 1.0}


@dataclass(slots=True)
class User:
    """One user.

    Attributes:
        samples: Audio (n,) that the user sends.
        words: Text that the user has received.
        messages: Number of messages with text, also an empty one.
        lateness: Seconds from the last sample of a chunk to the message, as the user measures them.
        measured: Seconds of lateness as the server measures them; none from simulstream's.
    """

    samples: Tensor
    words: str = ""
    messages: int = 0
    lateness: list[Seconds] = field(default_factory=list)
    measured: list[Seconds] = field(default_factory=list)

    async def talk(self, address: str, start: Seconds) -> None:
        """Send all audio at real time from ``start`` on, and receive until the end."""
        async with connect(address) as socket:
            await socket.send(json.dumps({"sample_rate": SAMPLE_RATE}))
            receiving = asyncio.create_task(self._receive(socket, start))
            data = (self.samples * 32767).to(torch.int16)
            sent = 0
            for piece in data.split(PIECE):
                sent += len(piece)
                await asyncio.sleep(start + sent / SAMPLE_RATE - time.monotonic())
                await socket.send(piece.numpy().tobytes())
            await socket.send(json.dumps({"end_of_stream": True}))
            await receiving

    async def _receive(self, socket: ClientConnection, start: Seconds) -> None:
        async for message in socket:
            data: dict[str, Any] = json.loads(message)
            if "new" in data:
                self.messages += 1
                self.words += data["new"]
                if data["new"] or "lateness" in data:
                    delay = data.get("delay", self._delay())
                    self.lateness.append(time.monotonic() - start - delay)
                if "lateness" in data:
                    self.measured.append(data["lateness"])
            if "end_of_processing" in data:
                return

    def _delay(self) -> Seconds:
        """Return the end of the newest chunk: simulstream answers each chunk with a message."""
        return min(self.messages * CHUNK, self.samples.numel()) / SAMPLE_RATE


async def refusal(address: str) -> str:
    """Return the sentence with which a full server refuses a user."""
    async with connect(address) as socket:
        try:
            return str(json.loads(await socket.recv())["error"])
        except ConnectionClosed as closed:
            return str(closed)


async def serve_users(address: str, users: Sequence[User]) -> None:
    """Let all users send at once."""
    start = time.monotonic() + 1
    await asyncio.gather(*(user.talk(address, start) for user in users))


async def serve_and_refuse(address: str, users: Sequence[User]) -> str:
    """Let all users send at once; return the sentence for one more user."""
    serving = asyncio.create_task(serve_users(address, users))
    await asyncio.sleep(3)
    sentence = await refusal(address)
    await serving
    return sentence


def users_of(whole: Tensor, *, count: int, seconds: int) -> list[User]:
    """Return users that begin at different places of a recording (n,)."""
    begins = [round(APART * SAMPLE_RATE * number) for number in range(count)]
    return [User(whole[begin : begin + seconds * SAMPLE_RATE]) for begin in begins]


def quantiles(name: str, values: Sequence[Seconds]) -> dict[str, float]:
    """Return the shares of a measure by name."""
    return {
        f"{name}_{label}_seconds": float(np.quantile(values, share))
        for label, share in SHARES.items()
    }


def main() -> None:
    """Start a server, let users talk, and print how late its output was."""
    parser = parser_of(__doc__, SIZES)
    add_overrides(parser)
    typed = parser.parse_intermixed_args()
    count = typed.users
    whole = recording(typed.seconds + APART * count)

    users = users_of(whole, count=count, seconds=typed.seconds)
    limits = [f"limits.streams={count}", f"limits.batch_size={count}"]
    limits += [f"limits.streams_per_minute={2 * count}", f"limits.connections={4 * count + 64}"]
    with zoo_server([f"threads={typed.threads}", *limits, *typed.overrides]) as server:
        sentence = asyncio.run(serve_and_refuse(server.url, users))
    facts = quantiles("lateness", [one for user in users for one in user.lateness])
    facts |= quantiles("measured_lateness", [one for user in users for one in user.measured])

    ratios, absent = {}, []
    if find_spec("simulstream") is None:
        absent.append("simulstream")
    elif not typed.overrides:
        others = users_of(whole, count=count, seconds=typed.seconds)
        with simulstream_server(SYSTEM, users=count) as server:
            asyncio.run(serve_users(server.url, others))
        theirs = quantiles(
            "simulstream_lateness", [one for user in others for one in user.lateness]
        )
        same = sum(mine.words == other.words for mine, other in zip(users, others, strict=True))
        print(f"equal words of both servers: {same} of {count} users")
        facts |= theirs
        ratios = {
            f"simulstream_{label}_speedup": theirs[f"simulstream_lateness_{label}_seconds"]
            / facts[f"lateness_{label}_seconds"]
            for label in ("median", "p95")
        }

    print_table(["measure", "seconds"], [[name, f"{value:.3f}"] for name, value in facts.items()])
    print(f"one user more: {sentence}")
    settings = {"users": count, "seconds": typed.seconds, "threads": typed.threads}
    outputs = sum(len(user.lateness) for user in users)
    counts = {"outputs": outputs, "absent": absent}
    print_result("live", settings, counts, rounded(facts), rounded(ratios))


if __name__ == "__main__":
    run_script(main)
