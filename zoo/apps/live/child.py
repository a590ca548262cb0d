"""Processes of a live server that run a module of the zoo, read stdin and write stdout."""

import asyncio
import os
import sys
from contextlib import suppress


async def start_child(module: str, *, stderr: int | None = None) -> asyncio.subprocess.Process:
    """Start a module in a process that imports from the places of this one.

    Args:
        module: Name of the module, which reads stdin and writes stdout.
        stderr: Where it writes messages, as in ``asyncio.subprocess``; None: that of this process.
    """
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def end_child(process: asyncio.subprocess.Process | None) -> None:
    """End a process, also while it works; None and a process that has ended are left."""
    if process is not None and process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
