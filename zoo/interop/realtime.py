"""A realtime endpoint in the place of a system (``system=realtime``).

Audio is sent as fast as it is spoken, and each word is recorded at the time of its arrival.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING, Any, cast, get_args
from urllib.parse import urlsplit

import numpy as np
import soxr
import torch
from torch import Tensor

from zoo.audio.files import to_pcm
from zoo.config.secrets import check_variable, mask_secrets, read_key
from zoo.disk.parsing import parse_object
from zoo.errors import ZooError, check_choice, check_numbers
from zoo.interop.realtime_events import (
    DIALECTS,
    Dialect,
    DialectName,
    ServerError,
    Session,
)
from zoo.languages import DETECTED, Language
from zoo.streaming.queue import TalkQueue
from zoo.streaming.session import Session as StreamSession
from zoo.streaming.simulate import Source, Stream, to_instance
from zoo.streaming.sources import source
from zoo.streaming.text import Revision
from zoo.systems.system import System
from zoo.talks import Talk
from zoo.types import SAMPLE_RATE, ChunkTime, Emission, Instance, Samples, Seconds

if TYPE_CHECKING:  # of the extra ``live``
    from websockets.asyncio.client import ClientConnection, connect

KEY_SETTING = "system.api_key_variable"
SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
PROBE: Samples = SAMPLE_RATE  # silence that the server answers before talks are streamed
CLOSING: Seconds = 2.0  # longest wait for a server that closes a connection
LONGEST_REASON = 300  # characters of a server's text in a message
quiet = logging.getLogger(f"{__name__}.websockets")
quiet.setLevel(logging.CRITICAL)  # websockets logs headers, and with them the key
OnChunk = Callable[[Stream], None]


class RealtimeEndpoint(System):
    """Streams talks to a server over a WebSocket.

    The delay of a word is the audio that had been sent when it arrived, and its elapsed time is the
    time since the first sample was spoken. Both include the network and the server.

    Args:
        name: Name of the system in results.
        source_language: Code of the source language.
        target_language: Code of the target language.
        url: Address of the server, such as ``http://127.0.0.1:8741``. Without a path, it is that of
            the dialect.
        model: Name of the model; None: the only one of the server.
        dialect: Events of the server: ``vllm`` (vLLM, and ``python -m zoo.live``),
            ``openai_transcription`` or ``openai_translation``.
        api_key_variable: Environment variable that contains the key of the server. None: no key.
        session: Further fields of the session, as the server documents them, such as
            ``{audio: {input: {transcription: {language: en}}}}``.
        piece_seconds: Duration of the audio that is sent at once.
        patience_seconds: Longest time in which the server may send nothing when a stream is opened
            and after its audio has ended.

    Raises:
        ZooError: A value is wrong.
    """

    def __init__(
        self,
        *,
        name: str,
        source_language: str,
        target_language: str,
        url: str | None = None,
        model: str | None = None,
        dialect: DialectName = "vllm",
        api_key_variable: str | None = None,
        session: Mapping[str, Any] | None = None,
        piece_seconds: Seconds = 0.1,
        patience_seconds: Seconds = 60.0,
    ) -> None:
        check_choice("system.dialect", dialect, get_args(DialectName))
        check_numbers(f"System {name!r}", above=0, piece_seconds=piece_seconds)
        check_numbers(f"System {name!r}", above=0, patience_seconds=patience_seconds)
        check_variable(api_key_variable, KEY_SETTING)
        super().__init__(
            name=name,
            source_language=source_language,
            target_language=target_language,
            chunk_seconds=piece_seconds,
        )
        self.url = None if url is None else endpoint(url, DIALECTS[dialect].path)
        self.model = model
        self.dialect = dialect
        self.api_key_variable = api_key_variable
        self.session = dict(session or {})
        self.patience_seconds = patience_seconds
        self._probed = False

    @property
    def emits_speech(self) -> bool:
        """False: target speech of a server is not received."""
        return False

    def talk_problem(self, talks: Sequence[Talk], *, whole: bool = False) -> str | None:
        """Refuse offline decoding; see ``System``."""
        return "a realtime endpoint receives audio as it is spoken." if whole else None

    def load(self) -> None:
        """Contact the server; see ``probe``."""
        self.probe()

    def probe(self) -> None:
        """Stream a second of silence to the server, once.

        Raises:
            ZooError: There is no address, key or package, or the server does not answer as its
                dialect demands.
        """
        if self._probed:
            return
        if find_spec("websockets") is None:
            raise ZooError("system=realtime needs websockets: pip install 'simulzoo[live]'.")
        if self.url is None:
            raise ZooError(
                "system=realtime needs system.url, the address of a realtime endpoint, such as "
                "http://127.0.0.1:8741."
            )
        if self.model is None and self.dialect != "vllm":
            raise ZooError(f"system.dialect={self.dialect} needs system.model.")
        silence = Source("a second of silence", [torch.zeros(PROBE)])
        with background_loop() as loop:
            asyncio.run_coroutine_threadsafe(self._talk(silence), loop).result()
        self._probed = True

    def stream(self, queue: TalkQueue, on_chunk: OnChunk | None = None) -> Iterator[Instance]:
        """Stream the talks that this rank claims, ``batch_size`` at the same time; see ``System``.

        Raises:
            ZooError: The server fails or ends a talk early.
        """
        batched = queue.batch_size > 1
        talks, live = iter(queue), set[Future[Instance]]()
        with background_loop() as loop:
            while True:
                for index, talk in islice(talks, queue.batch_size - len(live)):
                    spoken = source(talk, self.target_language, chunk_samples=None, index=index)
                    opened = self._talk(spoken, on_chunk, batched=batched)
                    live.add(asyncio.run_coroutine_threadsafe(opened, loop))
                if not live:
                    return
                done, live = wait(live, return_when=FIRST_COMPLETED)
                # a talk that is complete is kept, also if another one has failed
                for future in sorted(done, key=lambda one: one.exception() is not None):
                    yield future.result()

    def _talk(
        self, spoken: Source, on_chunk: OnChunk | None = None, *, batched: bool = False
    ) -> Coroutine[Any, Any, Instance]:
        """Read the audio of a stream, and return the coroutine that streams it."""
        samples = torch.cat([torch.zeros(0), *cast("Iterable[Tensor]", spoken.chunks)])
        kind = DIALECTS[self.dialect]
        pieces = encoded_pieces(samples, self.chunk_samples, rate=kind.sample_rate)
        stream = Stream(spoken.index or 0, spoken, cast("StreamSession", None), iter(()))
        dialect = kind(
            Session(
                model=self.model,
                source=None if self.source_language is DETECTED else self.source_language.code,
                target=self.target_language.code,
                separator=self.target_language.separator,
                fields=self.session,
            )
        )
        return self._stream(stream, pieces, dialect, on_chunk, batched=batched)

    async def _stream(
        self,
        stream: Stream,
        pieces: Iterable[tuple[Samples, str]],
        dialect: Dialect,
        on_chunk: OnChunk | None,
        *,
        batched: bool,
    ) -> Instance:
        """Stream to the end of a talk, and return what has arrived.

        Raises:
            ZooError: The server cannot be reached, fails, or ends the talk early.
        """
        from websockets.exceptions import WebSocketException

        key = read_key(self.api_key_variable, KEY_SETTING)
        try:
            async with (
                self._connection(dialect, key) as connection,
                asyncio.timeout(self.patience_seconds) as limit,
            ):
                await open_session(connection, dialect)
                limit.reschedule(None)
                conversation = Conversation(connection, dialect, stream, limit)
                await asyncio.gather(
                    conversation.speak(pieces, on_chunk, patience=self.patience_seconds),
                    conversation.listen(patience=self.patience_seconds),
                )
        except (OSError, UnicodeError, WebSocketException, ServerError) as error:
            reason = mask_secrets(" ".join(problem(error).split()), key)[:LONGEST_REASON]
            raise ZooError(
                f"The server {self.url} {reason.rstrip('.')} ({stream.source.talk!r}, after "
                f"{stream.received / SAMPLE_RATE:.1f} s)."
            ) from None
        return finished(stream, self.target_language, batched=batched)

    def _connection(self, dialect: Dialect, key: str | None) -> "connect":
        """Return a connection that is not open yet."""
        from websockets.asyncio.client import connect

        return connect(
            f"{self.url}?{dialect.query}" if dialect.query else str(self.url),
            additional_headers={"Authorization": f"Bearer {key}"} if key else {},
            compression=None,
            open_timeout=self.patience_seconds,
            ping_timeout=self.patience_seconds,
            close_timeout=CLOSING,
            logger=quiet,
        )


class Conversation:
    """The open connection of one talk.

    Args:
        connection: The connection, whose server is ready for audio.
        dialect: Its events.
        stream: Receives what arrives; ``received`` is the audio that is sent.
        limit: Time limit, which begins when the audio has ended.
    """

    def __init__(
        self,
        connection: "ClientConnection",
        dialect: Dialect,
        stream: Stream,
        limit: asyncio.Timeout,
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._stream = stream
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def speak(
        self,
        pieces: Iterable[tuple[Samples, str]],
        on_chunk: OnChunk | None,
        *,
        patience: Seconds,
    ) -> None:
        """Send each piece of audio at the time at which it is spoken, and then the end.

        Args:
            pieces: Number of samples up to the end of each piece, and its audio in base64.
            on_chunk: Called with the stream after each piece.
            patience: Longest time without an event after the end.
        """
        stream = self._stream
        for received, data in pieces:
            await asyncio.sleep(self._began + received / SAMPLE_RATE - self._loop.time())
            stream.newest = (received - stream.received) / SAMPLE_RATE
            stream.received = received
            await self._connection.send(json.dumps(self._dialect.audio(data)))
            if on_chunk:
                on_chunk(stream)
        await self._connection.send(json.dumps(self._dialect.ending()))
        self._limit.reschedule(self._loop.time() + patience)

    async def listen(self, *, patience: Seconds) -> None:
        """Record what arrives until the server has sent everything.

        Args:
            patience: Longest time without an event after the end of the audio.

        Raises:
            ServerError: The server reports an error, or ends before the audio.
        """
        while not self._dialect.ended:
            message = await self._connection.recv()
            elapsed = self._loop.time() - self._began
            change = self._dialect.read(event_of(message))
            if change is not None:
                self._record(change, elapsed)
            if self._limit.when() is not None:
                self._limit.reschedule(self._loop.time() + patience)
        if self._limit.when() is None:
            raise ServerError("ends the stream before the end of its audio")

    def _record(self, change: Revision, elapsed: Seconds) -> None:
        """Record a change of the text that has arrived at a time."""
        stream = self._stream
        stream.retract(change.retracted)
        if change.text:
            delay = stream.received / SAMPLE_RATE
            stream.emissions.append(Emission(change.text, delay, len(stream.times)))
        # Times of arrival include the computation, which is not known.
        stream.times.append(ChunkTime(elapsed, 0.0))


async def open_session(connection: "ClientConnection", dialect: Dialect) -> None:
    """Send the settings of a session, and wait until the server is ready for audio.

    Raises:
        ServerError: The server reports an error.
    """
    for event in dialect.opening():
        await connection.send(json.dumps(event))
    kind = None
    while kind != dialect.ready:
        event = event_of(await connection.recv())
        dialect.read(event)
        kind = event.get("type")


def finished(stream: Stream, target: Language, *, batched: bool) -> Instance:
    """Return the output of a stream without times of chunks, which would count as computation.

    Args:
        stream: The complete stream.
        target: Language of the text.
        batched: Whether the server had several streams at the same time.
    """
    instance = to_instance(stream, target, batched=batched)
    events = tuple(replace(event, chunk=0) for event in instance.events)
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
    ends = [*range(size, number, size), number] if number else []
    cuts = [end * rate // SAMPLE_RATE for end in ends[:-1]]
    pieces = np.split(to_pcm(samples).astype("<i2"), cuts)
    return (
        (end, base64.b64encode(piece.tobytes()).decode())
        for end, piece in zip(ends, pieces, strict=False)
    )


def event_of(message: str | bytes) -> Mapping[str, Any]:
    """Return the event of a message. Raises ServerError for a message that is no JSON object."""
    try:
        return parse_object(message, "its message")
    except (ZooError, UnicodeError) as error:
        raise ServerError(f"sends what is no event: {error}") from None


def problem(error: Exception) -> str:
    """Return what a server does that leads to an error, for a sentence."""
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    if isinstance(error, TimeoutError):
        return "sends nothing for longer than system.patience_seconds"
    if isinstance(error, ServerError):
        return str(error)
    if isinstance(error, InvalidStatus):
        return f"refuses the connection (HTTP {error.response.status_code})"
    if isinstance(error, ConnectionClosed):
        frame = error.rcvd
        return "closes the connection" + (f": {frame.code} {frame.reason}" if frame else "")
    return f"cannot be reached ({error})"


def endpoint(url: str, path: str) -> str:
    """Return the address of a WebSocket.

    Args:
        url: Address that the user names.
        path: Path of an address without one.

    Raises:
        ZooError: It is no address, or contains what may be secret.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # the port is no number, or a bracket is missing
        valid = False
    if not valid or "@" in url or "?" in url or "#" in url or not url.isprintable() or " " in url:
        raise ZooError(
            "system.url must be an address such as http://127.0.0.1:8741 without password, query "
            f"and #, for it is logged; put a key in an environment variable ({KEY_SETTING})."
        )
    return f"{SCHEMES[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/') or path}"


@contextmanager
def background_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield an event loop on a thread of its own, so that no consumer delays what arrives.

    What runs in it in the end is cancelled.
    """
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True, name="realtime")
    thread.start()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(cancel_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def cancel_all() -> None:
    """Cancel all other tasks of the running loop, and wait until they have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
