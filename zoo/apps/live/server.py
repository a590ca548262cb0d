"""The web server: page, systems, talks, health, metrics, and the sockets of both protocols."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from zoo.apps.live.connection import Connection
from zoo.apps.live.faults import LoopFaults, log_faults
from zoo.apps.live.guard import EVERYBODY, Access, Guard
from zoo.apps.live.hub import Hub
from zoo.apps.live.listening import Listening
from zoo.apps.live.metrics import prometheus
from zoo.apps.live.realtime import RealtimeWire
from zoo.apps.live.simulstream import SimulstreamWire
from zoo.apps.live.wire import Wire
from zoo.base.audio import files as audio
from zoo.base.talks import Talk
from zoo.base.types import Seconds
from zoo.systems.base import StreamingSystem

PAGE = str(resources.files("zoo.apps.live") / "page")
# No script or style but ours, and no other site may show the page in a frame.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; connect-src 'self' ws: wss:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Waves:
    """Files of the audio of talks, each written when a client first asks for it.

    A response that is read from a file takes little memory, however slowly its client reads.
    """

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._files: dict[str, Path] = {}
        self._writing = threading.Lock()

    def file(self, talk: Talk) -> Path:
        """Return the file of a talk."""
        with self._writing:
            if not all(path.is_file() for path in self._files.values()):
                self.remove()  # old temporary files are removed by many systems
            if self._folder is None:
                self._folder = TemporaryDirectory(prefix="simulzoo-live-")
            if talk.name not in self._files:
                path = Path(self._folder.name) / f"{len(self._files)}.wav"
                samples = audio.load(talk.file, start=talk.offset, duration=talk.duration)
                audio.write(path, samples)
                self._files[talk.name] = path
            return self._files[talk.name]

    def remove(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            self._folder.cleanup()
        self._folder, self._files = None, {}


def application(
    hub: Hub, *, access: Access = EVERYBODY, listening: Listening | None = None
) -> Starlette:
    """Create the web application; its start and end start and end the engine.

    Args:
        hub: Systems, talks, limits and logs.
        access: Who may use the server.
        listening: The socket of the server; None: it has none, as in tests.
    """
    model = next(iter(hub.systems))
    waves = Waves()

    def page(request: Request) -> Response:
        return FileResponse(f"{PAGE}/index.html", headers=HEADERS)

    def health(request: Request) -> Response:
        running = hub.engine.is_running
        return JSONResponse({"status": "ready" if running else "stopped"}, 200 if running else 503)

    def metrics(request: Request) -> Response:
        return PlainTextResponse(prometheus(hub), media_type="text/plain; version=0.0.4")

    def choices(request: Request) -> Response:
        systems = [_describe(name, systems) for name, systems in hub.systems.items()]
        talks = [
            {
                "name": talk.name,
                "duration": talk.duration,
                "source_language": talk.source_language,
            }
            for talk in hub.talks.values()
        ]
        return JSONResponse({"systems": systems, "talks": talks}, headers=HEADERS)

    def talk_audio(request: Request) -> Response:
        talk = hub.talks.get(request.path_params["name"])
        if talk is None:
            return PlainTextResponse(f"There is no talk {request.path_params['name']!r}.", 404)
        with log_faults(f"The audio of {talk.name} cannot be sent"):
            return FileResponse(waves.file(talk), media_type="audio/wav")
        return PlainTextResponse("The audio of this talk cannot be read.", 503)

    def realtime(address: Mapping[str, str]) -> Wire:
        return RealtimeWire(model, address.get("model"))

    routes: list[BaseRoute] = [
        Route("/", page),
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/systems", choices),
        Route("/talks/{name}", talk_audio),
        Mount("/page", StaticFiles(directory=PAGE)),
        WebSocketRoute("/", _socket(hub, lambda address: SimulstreamWire())),
        WebSocketRoute("/v1/realtime", _socket(hub, realtime)),
    ]
    guard = Middleware(Guard, access=access, listening=listening)
    return Starlette(routes=routes, middleware=[guard], lifespan=_lifespan(hub, waves))


def _describe(name: str, systems: Sequence[StreamingSystem]) -> dict[str, object]:
    """Return what the page shows of the systems of one name, which differ in their latency."""
    first = systems[0]
    return {
        "name": name,
        "source_language": first.source_language.code,
        "target_language": first.target_language.code,
        "target_name": first.target_language.name,
        "separator": first.target_language.separator,
        "speaks": first.emits_speech,
        "knob": None if first.knob is None else first.knob.name,
        "value": first.knob_value,
        "chunk_seconds": _step(first),
        "latencies": [
            {"value": system.knob_value, "chunk_seconds": _step(system)} for system in systems
        ],
    }


def _step(system: StreamingSystem) -> Seconds:
    """Return the seconds of audio that a step of a system processes."""
    return system.chunk_seconds * system.latency_multiplier


def _socket(hub: Hub, wire: Callable[[Mapping[str, str]], Wire]) -> Callable[..., object]:
    """Return the endpoint of a protocol, whose wire depends on the query of the address."""

    async def endpoint(websocket: WebSocket) -> None:
        await Connection(websocket, hub, wire(websocket.query_params)).serve()

    return endpoint


def _lifespan(hub: Hub, waves: Waves) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return what starts the engine and the saving of logs, and ends both after all connections."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(LoopFaults())
        hub.engine.start()
        saving = asyncio.create_task(hub.save())
        try:
            yield
        finally:
            saving.cancel()
            await hub.finish()
            waves.remove()

    return lifespan
