"""A realtime endpoint in the place of a system (``system=realtime``)."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING, Any, cast, get_args

import torch
from torch import Tensor

from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.languages import DETECTED
from zoo.base.machine.secrets import check_variable, mask_secrets, read_key, split_address
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Instance, Samples, Seconds
from zoo.extras.interop.realtime.conversation import (
    Conversation,
    OnChunk,
    encoded_pieces,
    instance_without_chunks,
)
from zoo.extras.interop.realtime.events import DIALECTS, Dialect, DialectName, ServerError, Session
from zoo.streaming.queue import TalkQueue
from zoo.streaming.simulate import Source, Stream
from zoo.streaming.sources import source
from zoo.systems.system import System

if TYPE_CHECKING:  # of the extra ``live``
    from websockets.asyncio.client import connect

KEY_SETTING = "system.api_key_variable"
SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
PROBE: Samples = SAMPLE_RATE  # silence that the server answers before talks are streamed
CLOSING: Seconds = 2.0  # longest wait for a server that closes a connection
LONGEST_REASON = 300  # characters of a server's text in a message

quiet = logging.getLogger(f"{__name__}.websockets")
quiet.setLevel(logging.CRITICAL)  # websockets logs headers, and with them the key


class RealtimeEndpoint(System):
    """Streams talks to a server over WebSockets.

    The delay of a word is the audio that had been sent when it arrived, and its elapsed time is the
    time since the first sample was spoken. Both include the network and the server.

    Args:
        name: Name of the system in results.
        source_language: Code of the source language.
        target_language: Code of the target language.
        url: Address of the server, such as ``http://127.0.0.1:8741``. Without a path, it has that
            of the dialect.
        model: Name of the model; None: the only one of the server.
        dialect: Events of the server: ``vllm`` (vLLM, and ``python -m zoo live``),
            ``openai_transcription`` or ``openai_translation``.
        api_key_variable: Environment variable that contains the key of the server. None: no key.
        session: Further fields of the session, as the server documents them.
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
        self.url = None if url is None else socket_address(url, DIALECTS[dialect].path)
        self.model = model
        self.dialect = dialect
        self.api_key_variable = api_key_variable
        self.session = dict(session or {})
        self.patience_seconds = patience_seconds
        self._probed = False

    @property
    def emits_speech(self) -> bool:
        """False: target speech of a server is not used."""
        return False

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> None:
        """Return nothing: the server has the state of a stream; see ``System``."""

    def talk_problem(self, talks: Sequence[Talk], *, whole: bool = False) -> str | None:
        """Refuse offline decoding; see ``System``."""
        return "a realtime endpoint receives audio as it is spoken." if whole else None

    def load(self) -> None:
        """Contact the server; see ``probe``."""
        self.probe()

    def probe(self) -> None:
        """Stream silence to the server, once.

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
        with background_loop() as loop:
            silence = self._talk(Source("", [torch.zeros(PROBE)]))
            asyncio.run_coroutine_threadsafe(silence, loop).result()
        self._probed = True

    def stream(self, queue: TalkQueue, on_chunk: OnChunk | None = None) -> Iterator[Instance]:
        """Stream the talks that this rank claims, ``batch_size`` at the same time; see ``System``.

        Raises:
            ZooError: The server fails, or ends a talk early.
        """
        talks, live = iter(queue), set[Future[Instance]]()
        with background_loop() as loop:
            while True:
                for index, talk in islice(talks, queue.batch_size - len(live)):
                    spoken = source(talk, self.target_language, chunk_samples=None, index=index)
                    result = self._talk(spoken, on_chunk, batched=queue.batch_size > 1)
                    live.add(asyncio.run_coroutine_threadsafe(result, loop))
                if not live:
                    return
                done, live = wait(live, return_when=FIRST_COMPLETED)
                # a talk that is complete is kept, also if another one has failed
                for future in sorted(done, key=lambda one: one.exception() is not None):
                    yield future.result()

    def _talk(
        self, spoken: Source, on_chunk: OnChunk | None = None, *, batched: bool = False
    ) -> Coroutine[Any, Any, Instance]:
        """Read the audio of a talk, and return the coroutine that streams it."""
        samples = torch.cat([torch.zeros(0), *cast("Iterable[Tensor]", spoken.chunks)])
        source_language, target = self.source_language, self.target_language
        dialect = DIALECTS[self.dialect](
            Session(
                model=self.model,
                source=None if source_language is DETECTED else source_language.code,
                target=target.code,
                separator=target.separator,
                fields=self.session,
            )
        )
        pieces = encoded_pieces(samples, self.chunk_samples, rate=dialect.sample_rate)
        stream = Stream(spoken.index or 0, spoken, session=cast("Any", None), chunks=iter(()))

        async def converse() -> Instance:
            conversation = Conversation(
                dialect, stream, patience=self.patience_seconds, on_chunk=on_chunk
            )
            key = read_key(self.api_key_variable, KEY_SETTING)
            with self._server_errors(stream, key):
                await conversation.hold(self._connection(dialect, key), pieces)
            return instance_without_chunks(stream, target, batched=batched)

        return converse()

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

    @contextmanager
    def _server_errors(self, stream: Stream, key: str | None) -> Iterator[None]:
        """Raise ZooError for what a server does wrong, with the talk and without the key."""
        from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

        try:
            yield
            return
        except ServerError as error:
            problem = str(error)
        except TimeoutError:
            problem = "sends nothing for longer than system.patience_seconds"
        except InvalidStatus as error:
            problem = f"refuses the connection (HTTP {error.response.status_code})"
        except ConnectionClosed as error:
            frame = error.rcvd
            problem = "closes the connection" + (f": {frame.code} {frame.reason}" if frame else "")
        except (OSError, UnicodeError, WebSocketException) as error:
            problem = f"cannot be reached ({error})"
        line = mask_secrets(" ".join(problem.split()), key)[:LONGEST_REASON].rstrip(".")
        talk, seconds = stream.source.talk, stream.received / SAMPLE_RATE
        where = f"talk {talk!r}, after {seconds:.1f} s" if talk else "silence before all talks"
        raise ZooError(f"The server {self.url} {line} ({where}).")


def socket_address(url: str, path: str) -> str:
    """Return the address of a WebSocket.

    Args:
        url: Address that the user names.
        path: Path of an address without one.

    Raises:
        ZooError: It is no address, or contains what may be secret.
    """
    parts = split_address(url, "system", schemes=SCHEMES, example="http://127.0.0.1:8741")
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
        asyncio.run_coroutine_threadsafe(cancel_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def cancel_others() -> None:
    """Cancel all other tasks of the running loop, and wait until they have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
