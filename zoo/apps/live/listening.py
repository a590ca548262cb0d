"""The listening socket of a live server, and what one client may cost before it has a stream.

The number of open connections is limited at the socket, below TLS and HTTP: a client that opens
connections and sends nothing, or half a request, must not use up the descriptors in which the logs
of others are written.
"""

import asyncio
import logging
import resource
import socket
import time
from contextlib import suppress
from typing import Any

from h11 import LocalProtocolError
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from zoo.apps.live.settings import Limits
from zoo.base.errors import ZooError
from zoo.base.types import Seconds

RESERVE = 128  # descriptors for weights, logs and the process that scores
EACH = 2  # descriptors of a connection: its socket, and a file that is sent
BACKLOG = 128  # connections that the kernel keeps until they are accepted
REQUEST: Seconds = 10.0  # longest time until a request is complete
LINGER: Seconds = 10.0  # longest time for a client to read the end of its response

READ = 8192  # bytes of a socket that are read at once: all others have their turn between two
FRAGMENTS = 1024  # most frames of a message
PONGS = 1024  # most pings that are answered while the client does not read
SHORT: Seconds = 0.001  # a turn that is not followed by a rest
REST = 9  # times as long as the frames of a client take, it rests

Client = tuple[str, int]  # host and port


def connection_limit(limits: Limits) -> int:
    """Return how many connections may be open, and raise the soft limit of open files for them.

    Raises:
        ZooError: There are too few descriptors for the streams.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits.connections
    wanted = RESERVE + EACH * limits.connections
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = min(limits.connections, (soft - RESERVE) // EACH)
    if most <= limits.streams:
        raise ZooError(
            f"limits.streams={limits.streams} needs {RESERVE + EACH * (limits.streams + 1)} open "
            f"files and as many connections, but there are {soft} (ulimit -n) and "
            f"limits.connections={limits.connections}."
        )
    return most


class Listening(socket.socket):
    """A listening socket that limits its connections.

    A connection waits until its request is complete. If there are too many connections, the one
    that waits longest is ended for a new one; if none waits, the new one is.

    Args:
        listening: Listening socket, which is used up.
        most: Most open connections.
    """

    def __init__(self, listening: socket.socket, *, most: int) -> None:
        super().__init__(fileno=listening.detach())
        self._most = most
        self._connections: dict[Client, socket.socket] = {}
        self._waiting: dict[Client, socket.socket] = {}  # the oldest one first

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; called by the event loop.

        Raises:
            BlockingIOError: There is none, or the new one has to wait until another one has ended.
            ConnectionAbortedError: All connections have a request; the new one is closed.
        """
        if len(self._connections) >= self._most:
            self._connections = {
                client: one for client, one in self._connections.items() if one.fileno() >= 0
            }
        is_full = len(self._connections) >= self._most
        if is_full and self._waiting:
            self.end(next(iter(self._waiting)))
            raise BlockingIOError
        connection, address = super().accept()
        if is_full:
            connection.close()
            raise ConnectionAbortedError
        client: Client = address[:2]
        self._connections[client] = self._waiting[client] = connection
        asyncio.get_running_loop().call_later(REQUEST, self._expire, client, connection)
        return connection, address

    def admit(self, client: Client) -> None:
        """Note that the request of a client is complete."""
        self._waiting.pop(client, None)

    def leave(self, client: Client) -> None:
        """End the connection of a client that has its response, also if it does not read it."""
        if (connection := self._connections.get(client)) is not None:
            asyncio.get_running_loop().call_later(LINGER, _shut_down, connection)

    def end(self, client: Client) -> None:
        """End the connection of a client at once."""
        self._waiting.pop(client, None)
        if (connection := self._connections.get(client)) is not None:
            _shut_down(connection)

    def _expire(self, client: Client, connection: socket.socket) -> None:
        """End a connection whose request has not been complete in time."""
        if self._waiting.get(client) is connection:
            self.end(client)


def _shut_down(connection: socket.socket) -> None:
    """Let the event loop, which owns a connection, read its end and close it."""
    with suppress(OSError):  # it is closed
        connection.shutdown(socket.SHUT_RDWR)


def is_news(record: logging.LogRecord) -> bool:
    """Return whether a message of the web server is logged.

    A client that sends a wrong text or a wrong request is none: the web server answers it, and a
    traceback for each would fill the disk.
    """
    error = record.exc_info[1] if record.exc_info else None
    is_wrong_text = isinstance(error, UnicodeDecodeError) and "ASGI" not in str(record.msg)
    return not is_wrong_text and not isinstance(error, LocalProtocolError)


class SocketProtocol(WebSocketsSansIOProtocol, asyncio.BufferedProtocol):
    """uvicorn's WebSocket, which reads little at a time and rests after much work.

    A frame has 6 bytes at least: without a limit, the frames of one read take half a second.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._buffer = bytearray(READ)
        self._fragments = 0
        self._pongs = 0

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return where the next bytes are written."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process bytes, and read no more for a while if this took long."""
        begun = time.thread_time()
        self.data_received(bytes(self._buffer[:nbytes]))
        spent = time.thread_time() - begun
        if spent > SHORT and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_later(REST * spent, self._read_on)

    def handle_cont(self, event: Frame) -> None:
        """Take a further frame of a message; a client that sends too many is left."""
        self._fragments = 0 if event.fin else self._fragments + 1
        if self._fragments > FRAGMENTS:
            self.transport.abort()
        else:
            super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer a ping; a client that sends many and reads no answer is left."""
        self._pongs = 0 if self.writable.is_set() else self._pongs + 1
        if self._pongs > PONGS:
            self.transport.abort()
        else:
            super().handle_ping()

    def _read_on(self) -> None:
        """Read again, unless the application has messages to take first."""
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()
