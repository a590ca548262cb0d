"""Live servers as processes of their own: the zoo's and simulstream's, both with InfiniSST."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT
from zoo.base.errors import ZooError
from zoo.base.types import Seconds

START: Seconds = 120.0  # longest time for simulstream's server to open its port


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Attributes:
        url: Address of its sockets, with a slash at the end.
        process: Number of its process.
        logs: Folder of the logs of its streams, if it is the zoo's.
        messages: Files of its own messages.
    """

    url: str
    process: int
    logs: Path = Path()
    messages: Sequence[Path] = ()


@contextmanager
def zoo_server(options: Sequence[str], *, files: int | None = None) -> Iterator[Server]:
    """Start ``python -m zoo live`` at a free port, and end it after the ``with`` block.

    Args:
        options: Hydra overrides of conf/live.yaml.
        files: Files that it may open; None: those of this process.

    Raises:
        ZooError: The server has not started.
    """
    command = [sys.executable, "-m", "zoo", "live", "port=0", *options]
    if files is not None:
        command = ["bash", "-c", f'ulimit -n {files}; exec "$@"', "-", *command]
    with (
        tempfile.NamedTemporaryFile() as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        address = re.search(r"http://([\d.:]+)/", process.stdout.readline())
        if address is None:
            raise ZooError(f"python -m zoo live has not started: {Path(errors.name).read_text()}")
        logs = ROOT / process.stdout.readline().removeprefix("logs: ").strip()
        messages = (logs / "live.log", Path(errors.name))
        try:
            yield Server(f"ws://{address[1]}/", process.pid, logs, messages)
        finally:
            process.terminate()


@contextmanager
def simulstream_server(system: str, *, users: int) -> Iterator[Server]:
    """Start simulstream's server with a system of the zoo, and end it after the ``with`` block.

    It runs its processors side by side, each with one CPU thread: more would compete.

    Args:
        system: Name of the system.
        users: Number of its speech processors.

    Raises:
        ZooError: The server has not opened its port.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = {
            "hostname": "127.0.0.1",
            "port": port,
            "pool_size": users,
            "acquire_timeout": 5,
            "metrics": {"enabled": False, "filename": str(folder / "metrics.jsonl")},
        }
        processor = {"type": "zoo.extras.interop.simulstream.SystemProcessor", "system": system}
        # YAML includes JSON.
        (folder / "server.yaml").write_text(json.dumps(server), encoding="utf-8")
        (folder / "processor.yaml").write_text(json.dumps(processor), encoding="utf-8")
        start = (
            "import torch; torch.set_num_threads(1); "
            "from simulstream.server.websocket_server import cli_main; cli_main()"
        )
        files = ["--server-config", "server.yaml", "--speech-processor-config", "processor.yaml"]
        command = [sys.executable, "-c", start, *files]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            command, cwd=folder, env=environment, stderr=subprocess.DEVNULL
        ) as process:
            try:
                _wait_for_port(process, port)
                yield Server(f"ws://127.0.0.1:{port}/", process.pid)
            finally:
                process.kill()


def _wait_for_port(process: "subprocess.Popen[bytes]", port: int) -> None:
    """Wait until a server accepts connections."""
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise ZooError("simulstream's server has not started.")
