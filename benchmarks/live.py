"""Many users of a live server at once: how late is its output?

    python benchmarks/live.py                        16 users of InfiniSST, a minute each
    python benchmarks/live.py --users 8 system=streamatt
    python benchmarks/live.py --small                seconds

A server (``python -m zoo.live``) is started as a process of its own. Each user sends the test set
of minitalks from another place on, in pieces of 100 ms at real time, by simulstream's protocol. The
lateness of an output is the time from the last sample of its chunk to the output, measured by the
server; the users measure it, too, from the last sample of the chunk to the message. One user more
than the server has places for is refused.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from harness import ROOT, add_overrides, parser_of, print_result, print_table, recording, rounded
from zoo.config.commands import run_script
from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE, Seconds

PIECE = SAMPLE_RATE // 10  # samples of a message
SIZES = {
    "users": (16, 3, "users at once"),
    "seconds": (60, 6, "audio of each user"),
    "threads": (2, 1, "CPU threads of the server"),
}
APART: Seconds = 7  # between the places at which two users begin


@dataclass(slots=True)
class User:
    """One user.

    Attributes:
        samples: Audio (n,) that the user sends.
        words: Text that the user has received.
        lateness: Seconds of lateness of each output, as the server measures it.
        delays: Seconds from the last sample of the chunk to the message, as the user measures them.
    """

    samples: Tensor
    words: str = ""
    lateness: list[Seconds] = field(default_factory=list)
    delays: list[Seconds] = field(default_factory=list)

    async def talk(self, address: str, start: Seconds) -> None:
        """Send all audio at real time from ``start`` on, and receive until the end."""
        async with connect(address) as socket:
            await socket.send(json.dumps({"sample_rate": SAMPLE_RATE}))
            receiving = asyncio.create_task(self._receive(socket, start))
            data = (self.samples * 32767).to(torch.int16)
            for number, piece in enumerate(data.split(PIECE), start=1):
                await asyncio.sleep(start + number * PIECE / SAMPLE_RATE - time.monotonic())
                await socket.send(piece.numpy().tobytes())
            await socket.send(json.dumps({"end_of_stream": True}))
            await receiving

    async def _receive(self, socket: ClientConnection, start: Seconds) -> None:
        async for message in socket:
            data: dict[str, Any] = json.loads(message)
            if "lateness" in data:
                self.words += data["new"]
                self.lateness.append(data["lateness"])
                self.delays.append(time.monotonic() - start - data["delay"])
            if "end_of_processing" in data:
                return


async def refused(address: str) -> str:
    """Return the sentence with which a full server refuses a user."""
    async with connect(address) as socket:
        try:
            return str(json.loads(await socket.recv())["error"])
        except ConnectionClosed as closed:
            return str(closed)


async def serve_users(address: str, users: Sequence[User]) -> str:
    """Let all users send at once; return the sentence for one more user."""
    start = time.monotonic() + 1
    talking = [asyncio.create_task(user.talk(address, start)) for user in users]
    await asyncio.sleep(3)
    sentence = await refused(address)
    await asyncio.gather(*talking)
    return sentence


def main() -> None:
    """Start a server, let users talk, and print how late its output was."""
    parser = parser_of(__doc__, SIZES)
    add_overrides(parser)
    typed = parser.parse_intermixed_args()
    whole = recording(typed.seconds + APART * typed.users)
    count = typed.seconds * SAMPLE_RATE
    begins = [round(APART * SAMPLE_RATE * number) for number in range(typed.users)]
    users = [User(whole[begin : begin + count]) for begin in begins]

    limits = [f"limits.streams={typed.users}", f"limits.batch_size={typed.users}"]
    command = [sys.executable, "-m", "zoo.live", "port=0", f"threads={typed.threads}", *limits]
    with subprocess.Popen(
        [*command, *typed.overrides], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        found = re.search(r"http://([\d.:]+)/", server.stdout.readline())
        if found is None:
            raise ZooError("The server has not started.")
        try:
            sentence = asyncio.run(serve_users(f"ws://{found[1]}/", users))
        finally:
            server.terminate()

    lateness = np.array([one for user in users for one in user.lateness])
    delays = np.array([one for user in users for one in user.delays])
    facts = {
        f"{name}_{label}_seconds": float(np.quantile(values, share))
        for name, values in (("lateness", lateness), ("message", delays))
        for label, share in (("median", 0.5), ("p95", 0.95), ("max", 1.0))
    }
    print_table(["measure", "seconds"], [[name, f"{value:.3f}"] for name, value in facts.items()])
    print(f"one user more: {sentence}")
    settings = {"users": typed.users, "seconds": typed.seconds, "threads": typed.threads}
    print_result("live", settings, {"outputs": int(lateness.size)}, rounded(facts))


if __name__ == "__main__":
    run_script(main)
