"""Files that arrive piece by piece, such as WebM of a browser, decoded as far as they are there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import numpy as np

from zoo.apps.live.child import end_child, start_child
from zoo.apps.live.decode_process import MESSAGE, RECORD
from zoo.apps.live.formats import CHOICES, Container, Samples, UnusableAudio
from zoo.base.types import Seconds

Piece = tuple[int, Samples]  # sample rate, mono samples
DECODER = "zoo.apps.live.decode_process"
PATIENCE: Seconds = 60.0  # for the process to start, to read a message, and to decode a second


class Decoder:
    """Decodes the files of a stream, one after the other, in a process of its own.

    A process starts in half a second, in which a file of each message would keep a core busy.

    Args:
        container: What the first file is; it has a demuxer.

    Attributes:
        container: What the current file is.
    """

    def __init__(self, container: Container) -> None:
        self.container = container
        self._process: asyncio.subprocess.Process | None = None

    async def decode(self, data: bytes, *, final: bool) -> AsyncIterator[Piece]:
        """Yield the samples of the next bytes, a second or less at once.

        Args:
            data: Bytes.
            final: Whether the file ends with them.

        Raises:
            UnusableAudio: The file cannot be decoded, or has ended before.
        """
        try:
            process = self._process = self._process or await start_child(
                DECODER,
                stderr=asyncio.subprocess.DEVNULL,  # clients would write the log of the server
            )
            assert process.stdin is not None
            with suppress(ConnectionError):  # it has ended, and what it has written states why
                demuxer = (self.container.demuxer or "").encode()
                process.stdin.write(MESSAGE.pack(len(data), final, demuxer) + data)
                async with asyncio.timeout(PATIENCE):
                    await process.stdin.drain()
            while True:
                rate, length = RECORD.unpack(await self._read(RECORD.size))
                if not rate and not length:
                    break
                if not rate:
                    raise self._error((await self._read(length)).decode())
                yield rate, np.frombuffer(await self._read(4 * length), "<f4")
        except TimeoutError as error:
            raise self._error("the decoder does not end") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise self._error("it is damaged, or has ended before") from error

    async def close(self) -> None:
        """End the process, also while it decodes."""
        process, self._process = self._process, None
        await end_child(process)

    async def _read(self, size: int) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return await self._process.stdout.readexactly(size)

    def _error(self, reason: str) -> UnusableAudio:
        return UnusableAudio(
            f"The audio begins as {self.container.name}, which cannot be decoded ({reason}); "
            f"send {CHOICES}."
        )
