"""Clients of a live server: those that translate, the broken ones and the hostile ones.

Each raises ValueError if the server does not do what it should.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from zoo.base.types import Seconds

IDLE: Seconds = 5.0  # after which the server leaves a client that sends nothing
PATIENCE: Seconds = 30.0  # for the server to end a connection
SILENT = 300  # connections: more than the server has descriptors
MANY = 200  # messages
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
MASK = bytes(4)
EMPTY = b"\x01\x80" + MASK + 200_000 * (b"\x00\x80" + MASK)  # a text in frames without a letter
PINGS = 50_000 * (b"\x89\xfd" + MASK + bytes(125))

Guest = Callable[[ClientConnection, bytes], Awaitable[str | None]]
Stranger = Callable[[str, int], Awaitable[None]]


async def text_of(socket: ClientConnection) -> str:
    """Return the text of a stream that has ended."""
    text = ""
    async for message in socket:
        data = json.loads(message)
        text += data.get("new", "")
        if "end_of_processing" in data:
            return text
    raise ValueError("the server has closed the connection of a stream")


async def translating(socket: ClientConnection, audio: bytes) -> str:
    """Translate audio, and return its text."""
    await socket.send(audio)
    await socket.send(json.dumps({"end_of_stream": True}))
    return await text_of(socket)


async def killed(socket: ClientConnection, audio: bytes) -> None:
    """Break the connection while the server works."""
    await socket.send(audio)
    socket.transport.abort()


async def cut(socket: ClientConnection, audio: bytes) -> None:
    """Send nothing more, and read nothing, for longer than the server waits."""
    await socket.send(audio)
    socket.transport.pause_reading()
    await asyncio.sleep(IDLE + 2)
    socket.transport.abort()


async def unread(socket: ClientConnection, audio: bytes) -> None:
    """Ask for many answers and read none of them."""
    await _send_and_read_nothing(socket, "nonsense")


async def echo(socket: ClientConnection, audio: bytes) -> None:
    """Name a system in 900,000 letters, again and again, and read no answer."""
    await _send_and_read_nothing(socket, json.dumps({"system": 900_000 * "x"}))


async def _send_and_read_nothing(socket: ClientConnection, message: str) -> None:
    socket.transport.pause_reading()
    with suppress(ConnectionClosed, TimeoutError):
        async with asyncio.timeout(IDLE):
            for _ in range(10 * MANY):
                if socket.transport.is_closing():
                    break
                await socket.send(message)
    socket.transport.abort()


async def garbage(socket: ClientConnection, audio: bytes) -> str:
    """Send what is no message; each gets an answer, and valid settings begin a stream."""
    surrogate = json.dumps({"metrics_metadata": {"wav_name": "\ud800.wav"}})
    for message in (b"\x01", "{", "[]", '{"end_of', "\x00" * 100, surrogate):
        await socket.send(message)
        if "error" not in json.loads(await socket.recv()):
            raise ValueError(f"{message!r} was accepted")
    await socket.send("{}")  # settings that are valid
    return await translating(socket, audio)


async def huge(socket: ClientConnection, audio: bytes) -> None:
    """Send a message of 10 MB, after which the server closes the connection."""
    with suppress(ConnectionClosed, ConnectionError):
        await socket.send(bytes(10_000_000))
        await socket.recv()
        raise ValueError("a message of 10 MB was accepted")


async def wrong_rate(socket: ClientConnection, audio: bytes) -> str:
    """Name impossible sample rates, then translate."""
    for rate in (0, -16000, 10**9, "fast", [16000], None):
        await socket.send(json.dumps({"sample_rate": rate}))
        if rate is not None and "error" not in json.loads(await socket.recv()):
            raise ValueError(f"a sample rate of {rate!r} was accepted")
    return await translating(socket, audio)


async def ends_only(socket: ClientConnection, audio: bytes) -> None:
    """End many streams that have not begun."""
    for _ in range(MANY):
        await socket.send('{"end_of_stream": 1}')
        if await socket.recv() != '{"end_of_processing":true}':
            raise ValueError("the end of a stream without audio is not answered")


async def silent(host: str, port: int) -> None:
    """Open many connections and send nothing."""
    opened = [await asyncio.open_connection(host, port) for _ in range(SILENT)]
    try:
        for reader, _ in opened:
            await _end(reader)
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def slow(host: str, port: int) -> None:
    """Send a letter of a request each half second."""
    reader, writer = await asyncio.open_connection(host, port)
    ending = asyncio.create_task(_end(reader))
    try:
        while not ending.done():
            writer.write(b"G")
            await asyncio.wait([ending], timeout=0.5)
        await ending
    finally:
        writer.transport.abort()


async def empty_frames(host: str, port: int) -> None:
    """Send a message in many frames without a letter."""
    await _flood(host, port, EMPTY)


async def pings(host: str, port: int) -> None:
    """Send many pings, and read no answer."""
    await _flood(host, port, PINGS)


async def _flood(host: str, port: int, frames: bytes) -> None:
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 12)
    try:
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        async with asyncio.timeout(PATIENCE):
            while not writer.transport.is_closing():
                writer.write(frames)
                await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()


async def rebinding(host: str, port: int) -> None:
    """Ask as a page of another site does, whose name leads to this machine."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /systems HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    if not (await reader.read()).startswith(b"HTTP/1.1 403 "):
        raise ValueError("another host was answered")
    writer.close()


async def _end(reader: asyncio.StreamReader) -> None:
    """Wait for the end of a connection."""
    with suppress(ConnectionError):
        async with asyncio.timeout(PATIENCE):
            await reader.read()


GUESTS: dict[str, Guest] = {
    "translates": translating,
    "killed": killed,
    "network cut": cut,
    "reads nothing": unread,
    "reads no echo": echo,
    "garbage": garbage,
    "10 MB": huge,
    "wrong sample rate": wrong_rate,
    "ends only": ends_only,
}
STRANGERS: dict[str, Stranger] = {
    "silent": silent,
    "slow": slow,
    "empty frames": empty_frames,
    "pings": pings,
    "another host": rebinding,
}


async def come(url: str, kind: str, audio: bytes) -> str | None:
    """Be a client of a kind.

    Args:
        url: Address of the server's sockets.
        kind: A name in ``GUESTS`` or ``STRANGERS``.
        audio: What the clients that translate send.

    Returns:
        The text of a client that translates.
    """
    if kind in STRANGERS:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        await STRANGERS[kind](parts.hostname, parts.port)
        return None
    async with connect(url, max_queue=1, ping_timeout=None, compression=None) as socket:
        return await GUESTS[kind](socket, audio)
