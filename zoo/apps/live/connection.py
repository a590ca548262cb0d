"""One client: reads its messages, feeds its streams to the engine, sends what they lead to."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace

import torch
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from zoo.apps.live.audio import AudioInput
from zoo.apps.live.engine import Failure, Progress, ServedStream
from zoo.apps.live.formats import DEFAULT, UnusableAudio
from zoo.apps.live.guard import POLICY
from zoo.apps.live.hub import Hub, KnownAudio
from zoo.apps.live.logs import references_of
from zoo.apps.live.scoring import StreamScoring
from zoo.apps.live.wire import Audio, Configure, End, Message, Order, RefusedSettings, Wire
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.streaming.simulate import Stream
from zoo.systems.base import StreamingSystem

UNSUPPORTED, FAILED, LATER = 1003, 1011, 1013  # close codes of RFC 6455
PATIENCE: Seconds = 5.0  # for a client to receive the reason of a closing
LOOK: Seconds = 0.05  # between two looks at a full backlog
TURN: Seconds = 0.001  # after a message, in which other clients have theirs
LONGEST_SENTENCE = 1000  # letters of a sentence, which may repeat what the client has sent
LONGEST_NAME = 200  # letters of the name of a recording


_END = Progress(None, None, 0.0, final=True)


class Closing(Exception):
    """The server closes the connection.

    Attributes:
        code: Close code.
        sentence: Why.
    """

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class Connection:
    """The connection of one client, which has one stream at a time, one after the other.

    Args:
        websocket: Connection of the client, not accepted yet.
        hub: What all connections share.
        wire: Messages of its protocol.
    """

    def __init__(self, websocket: WebSocket, hub: Hub, wire: Wire) -> None:
        self._websocket = websocket
        self._hub = hub
        self._wire = wire
        self._settings = Configure()
        self._refused: str | None = None  # why the newest settings were refused
        self._audio = AudioInput()
        self._served: ServedStream | None = None
        self._scoring: StreamScoring | None = None  # of a stream whose talk has references
        self._score_tasks: set[asyncio.Task[None]] = set()
        self._client = websocket.client.host if websocket.client is not None else ""
        self._received = 0  # samples of the stream
        self._ended = asyncio.Event()  # the stream has been processed to its end
        self._outgoing: asyncio.Queue[str] = asyncio.Queue(hub.limits.unread_messages)
        self._unread = 0  # bytes of these messages
        self._closing: asyncio.Future[Closing | None] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        """Serve the client until it leaves, or until the server closes the connection."""
        await self._websocket.accept()
        try:
            with self._hub.place():
                await self._exchange()
        except ZooError as error:  # no place
            await self._close(Closing(LATER, str(error)))

    async def _exchange(self) -> None:
        """Read and write side by side; whichever ends first ends the other."""
        try:
            self._configure(self._wire.requested_settings())
        except RefusedSettings as error:
            await self._close(Closing(POLICY, str(error)))
            return
        self._send(self._wire.greet())
        tasks = [asyncio.create_task(one) for one in (self._read(), self._write())]
        waiting: list[asyncio.Future[Closing | None]] = [*tasks, self._closing]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            closing = next((found for one in done if (found := one.result()) is not None), None)
        finally:
            for task in tasks:
                task.cancel()
            self._release()
            await self._audio.close()
        if closing is not None:
            await self._close(closing)

    async def _read(self) -> Closing | None:
        """Carry out the messages of the client. Returns why the server closes; None: it left."""
        limits = self._hub.limits
        try:
            while True:
                async with asyncio.timeout(limits.idle_seconds):
                    message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return None
                text = message.get("text")
                data = text if text is not None else message.get("bytes") or b""
                try:
                    for order in self._wire.orders(data):
                        await self._carry_out(order)
                except UnusableAudio as error:
                    return Closing(UNSUPPORTED, str(error))
                except ZooError as error:
                    self._refuse(error)
                except RecursionError:
                    self._refuse(RefusedSettings("A message is nested too deeply."))
                await asyncio.sleep(TURN)
        except TimeoutError:
            return Closing(POLICY, f"The client was silent for {limits.idle_seconds:g} s.")
        except WebSocketDisconnect:
            return None
        except Closing as closing:
            return closing

    def _refuse(self, error: ZooError) -> None:
        """Name what is wrong with a message; refused settings are kept for the audio after them."""
        sentence = str(error)[:LONGEST_SENTENCE]
        if isinstance(error, RefusedSettings):
            self._refused = sentence
        self._send(self._wire.problem(sentence))

    async def _write(self) -> Closing | None:
        """Send the messages in their order."""
        try:
            while True:
                message = await self._outgoing.get()
                await self._websocket.send_text(message)
                self._unread -= len(message.encode())
        except (WebSocketDisconnect, RuntimeError):  # the client has left
            return None

    async def _carry_out(self, order: Order) -> None:
        """Carry out an order of the client."""
        match order:
            case Configure():
                self._configure(order)
                self._send(self._wire.confirm())
            case Audio(data):
                await self._receive_audio(data, final=False)
            case End() if self._served is None:
                self._send(self._wire.progress(_END, with_speech=False))
            case End():
                await self._receive_audio(b"", final=True)
                await self._ended.wait()
                self._release()

    def _configure(self, order: Configure) -> None:
        """Take the settings of the next stream. Raises RefusedSettings for wrong ones."""
        given = {key: value for key, value in asdict(order).items() if value is not None}
        if "system" in given:
            given.setdefault("latency", None)  # a latency is one of the system it was named with
        changed = replace(self._settings, **given)
        if self._served is not None and changed != self._settings:
            raise RefusedSettings("A stream has begun: its settings change after its end.")
        name = changed.recording or ""
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise RefusedSettings(
                f"The name of a recording has at most {LONGEST_NAME} letters, all of them visible."
            )
        try:
            _audio_input(changed)
            self._hub.system(changed.system, changed.source, changed.target, changed.latency)
            self._hub.talk(changed.talk)
        except ZooError as error:
            raise RefusedSettings(str(error)) from error
        self._settings, self._refused = changed, None

    async def _receive_audio(self, data: bytes, *, final: bool) -> None:
        """Add audio to the stream, which its first audio opens.

        Reading waits while too much audio is not processed, so that a client that sends faster
        than the machine translates is slowed down and loses nothing.
        """
        hub, settings = self._hub, self._settings
        if self._refused is not None:
            raise Closing(POLICY, self._refused)
        if self._served is None:
            self._audio = _audio_input(settings)
            self._received = 0
            self._ended.clear()
            self._open(
                hub.system(settings.system, settings.source, settings.target, settings.latency)
            )
            assert self._served is not None
        async for samples in self._audio.receive(data, final=final):
            self._received += samples.numel()
            if self._received > hub.limits.stream_seconds * SAMPLE_RATE:
                hours = hub.limits.stream_seconds / 3600
                raise Closing(POLICY, f"A stream has at most {hours:g} hours on this server.")
            hub.engine.receive(self._served, samples)
            while self._served.backlog > hub.limits.backlog_seconds:
                await asyncio.sleep(LOOK)
        if final:
            hub.engine.receive(self._served, torch.zeros(0), final=True)

    @property
    def _talk(self) -> Talk | None:
        """The talk that the client has named, or whose recording it sends; None: unknown."""
        settings = self._settings
        if settings.talk is None and settings.recording is not None:
            return self._hub.talks.get(settings.recording)
        return self._hub.talk(settings.talk)

    def _open(self, system: StreamingSystem) -> None:
        """Open a stream, which is scored while it runs if its talk is known."""
        hub, loop = self._hub, asyncio.get_running_loop()
        audio = KnownAudio(self._talk, self._settings.recording)
        references = references_of(audio.talk, system.target_language)
        scoring: StreamScoring | None = None
        if references:
            scoring = StreamScoring(hub.scoring, references, system.target_language)

        def listener(result: Progress | Failure) -> None:
            copy: Stream | None = None
            if scoring is not None and isinstance(result, Progress):
                copy = scoring.copy_if_due(served.stream, final=result.final)
            with suppress(RuntimeError):  # the loop has ended with the server
                loop.call_soon_threadsafe(self._deliver, result, copy)

        self._scoring = scoring
        try:
            self._served = served = hub.open(system, listener, audio, client=self._client)
        except ZooError as error:
            raise Closing(LATER, str(error)) from error

    def _deliver(self, result: Progress | Failure, copy: Stream | None = None) -> None:
        """Send what a chunk has led to; called in the loop of the server.

        Args:
            result: What the chunk has led to.
            copy: The stream after the chunk if it is to be scored. The end of a stream is sent
                after its scores.
        """
        if isinstance(result, Failure):
            self._begin_closing(Closing(FAILED, f"The system has failed: {result.problem}"))
            return
        with_speech = bool(self._settings.with_speech)
        ends = result.final and copy is None
        self._send(self._wire.progress(replace(result, final=ends), with_speech=with_speech))
        if ends:
            self._ended.set()
        elif copy is not None:
            task = asyncio.get_running_loop().create_task(self._score(copy, final=result.final))
            self._score_tasks.add(task)
            task.add_done_callback(self._score_tasks.discard)

    async def _score(self, copy: Stream, *, final: bool) -> None:
        """Score a copy of the stream and send the scores, and after the last ones the end."""
        assert self._scoring is not None
        scores = await self._scoring.score(copy, final=final)
        if scores is not None:
            self._send(self._wire.score(scores))
        if final:
            self._deliver(_END)

    def _send(self, messages: Iterable[Message]) -> None:
        """Queue messages; a client that reads none for too long is left."""
        try:
            for message in messages:
                text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
                self._unread += len(text.encode())
                if self._unread > self._hub.limits.unread_bytes:
                    raise asyncio.QueueFull
                self._outgoing.put_nowait(text)
        except asyncio.QueueFull:
            self._begin_closing(Closing(POLICY, "The client does not read its messages."))

    def _begin_closing(self, closing: Closing) -> None:
        if not self._closing.done():
            self._closing.set_result(closing)

    def _release(self) -> None:
        """Give the stream to the hub, which writes its log."""
        served, self._served = self._served, None
        if served is not None:
            self._hub.release(served)

    async def _close(self, closing: Closing) -> None:
        """Send the reason and close; the reason of a close frame has at most 123 bytes.

        A client that reads nothing does not receive it.
        """
        if self._websocket.application_state is not WebSocketState.CONNECTED:
            return
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                for message in self._wire.problem(closing.sentence):
                    await self._websocket.send_json(message)
                reason = closing.sentence.encode()[:123].decode(errors="ignore")
                await self._websocket.close(closing.code, reason)


def _audio_input(settings: Configure) -> AudioInput:
    """Return what reads the audio of a stream. Raises ZooError for settings that are no format."""
    rate, encoding = settings.sample_rate, settings.encoding
    return AudioInput(
        SAMPLE_RATE if rate is None else rate, DEFAULT if encoding is None else encoding
    )
