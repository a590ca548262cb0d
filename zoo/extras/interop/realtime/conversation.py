"""One talk over one connection: audio is sent as it is spoken, text is recorded as it arrives."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import soxr
import torch
from torch import Tensor

from zoo.base.audio.files import to_pcm
from zoo.base.disk.parsing import parse_object
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import SAMPLE_RATE, ChunkTime, Emission, Instance, Samples, Seconds
from zoo.extras.interop.realtime.events import Dialect, ServerError
from zoo.streaming.simulate import Stream, to_instance
from zoo.streaming.text import Revision

if TYPE_CHECKING:  # of the extra ``live``
    from websockets.asyncio.client import ClientConnection, connect

OnChunk = Callable[[Stream], None]


class Conversation:
    """The events of one talk, which an event loop that does nothing else sends and receives.

    Args:
        dialect: Events of the server.
        stream: Receives what arrives. ``received`` is the audio that is sent.
        patience: Longest time without an event before the audio and after it.
        on_chunk: Called with the stream after each piece of audio.
    """

    def __init__(
        self, dialect: Dialect, stream: Stream, *, patience: Seconds, on_chunk: OnChunk | None
    ) -> None:
        self._dialect = dialect
        self._stream = stream
        self._patience = patience
        self._on_chunk = on_chunk
        self._began: Seconds = 0.0  # time of the loop at which the first sample is spoken

    async def hold(self, connecting: "connect", pieces: Iterable[tuple[Samples, str]]) -> None:
        """Connect, and stream to the end.

        Args:
            connecting: Connection that is not open yet.
            pieces: Audio, as ``encoded_pieces`` returns it.

        Raises:
            ServerError: The server reports an error, or ends before the audio.
            TimeoutError: It sends nothing.
            OSError, WebSocketException: It cannot be reached, or closes the connection.
        """
        async with connecting as connection, asyncio.timeout(self._patience) as limit:
            for event in self._dialect.first_events():
                await connection.send(json.dumps(event))
            while (event := event_of(await connection.recv()))["type"] != self._dialect.ready:
                self._dialect.read(event)
            limit.reschedule(None)
            self._began = asyncio.get_running_loop().time()
            await asyncio.gather(
                self._speak(connection, pieces, limit), self._listen(connection, limit)
            )

    async def _speak(
        self,
        connection: "ClientConnection",
        pieces: Iterable[tuple[Samples, str]],
        limit: asyncio.Timeout,
    ) -> None:
        """Send each piece when its last sample has been spoken, and then the end."""
        loop, stream = asyncio.get_running_loop(), self._stream
        for received, data in pieces:
            await asyncio.sleep(self._began + received / SAMPLE_RATE - loop.time())
            stream.newest = (received - stream.received) / SAMPLE_RATE
            stream.received = received
            await connection.send(json.dumps(self._dialect.audio(data)))
            if self._on_chunk:
                self._on_chunk(stream)
        await connection.send(json.dumps(self._dialect.last_event()))
        limit.reschedule(loop.time() + self._patience)

    async def _listen(self, connection: "ClientConnection", limit: asyncio.Timeout) -> None:
        """Record what arrives until the server has sent everything."""
        loop = asyncio.get_running_loop()
        while not self._dialect.ended:
            message = await connection.recv()
            elapsed = loop.time() - self._began
            change = self._dialect.read(event_of(message))
            if change is not None:
                self._record(change, elapsed)
            if limit.when() is not None:  # the audio has ended
                limit.reschedule(loop.time() + self._patience)
        if limit.when() is None:
            raise ServerError("ends the stream before the end of its audio")

    def _record(self, change: Revision, elapsed: Seconds) -> None:
        """Record a change of the text that has arrived at a time."""
        stream = self._stream
        stream.retract(change.retracted)
        if change.text:
            delay = stream.received / SAMPLE_RATE
            stream.emissions.append(Emission(change.text, delay, len(stream.times)))
        stream.times.append(ChunkTime(elapsed, 0.0))  # the arrival includes all computation


def instance_without_chunks(stream: Stream, target: Language, *, batched: bool) -> Instance:
    """Return the output of a stream without its chunks, whose times would count as computation.

    Args:
        stream: The complete stream.
        target: Language of the text.
        batched: Whether the server had several streams at the same time.
    """
    instance = to_instance(stream, target, batched=batched)
    events = tuple(replace(event, chunk=0, pieces=()) for event in instance.events)
    return replace(instance, chunks=(), chunk_indices=(), events=events, stages=None)


def encoded_pieces(samples: Tensor, size: Samples, *, rate: int) -> Iterator[tuple[Samples, str]]:
    """Cut audio into pieces for a server.

    Args:
        samples: (n,) float32 at 16 kHz.
        size: Number of samples of a piece.
        rate: Samples per second that the server receives.

    Returns:
        For each piece, the number of samples at 16 kHz up to its end, and its 16-bit samples at
        ``rate`` in base64.
    """
    number = samples.numel()
    if rate != SAMPLE_RATE:
        samples = torch.from_numpy(soxr.resample(samples.numpy(), SAMPLE_RATE, rate))
    ends = [*range(size, number, size), number]
    cuts = [end * rate // SAMPLE_RATE for end in ends[:-1]]
    pieces = np.split(to_pcm(samples).astype("<i2"), cuts)
    return (
        (end, base64.b64encode(piece.tobytes()).decode())
        for end, piece in zip(ends, pieces, strict=True)
    )


def event_of(message: str | bytes) -> Mapping[str, Any]:
    """Return the event of a message. Raises ServerError for a message without a type."""
    try:
        event = parse_object(message, "its message")
    except (ZooError, UnicodeError) as error:
        raise ServerError(f"sends what is no event: {error}") from None
    if not isinstance(event.get("type"), str):
        raise ServerError("sends an event without a type")
    return event
