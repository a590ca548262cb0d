"""The web server: page, systems, talks, health, metrics, and the sockets of both protocols."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from zoo.audio import files as audio
from zoo.live.connection import POLICY, Connection
from zoo.live.hub import Hub
from zoo.live.metrics import prometheus
from zoo.live.realtime import RealtimeWire
from zoo.live.simulstream import SimulstreamWire
from zoo.live.wire import Wire
from zoo.systems.base import StreamingSystem
from zoo.types import Seconds

PAGE = str(resources.files("zoo.live") / "page")
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


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use a server.

    Attributes:
        token: Secret that an address must have as ``token``, or a request as its bearer token;
            None: everybody.
        origins: Origins of other pages that may open sockets, such as ``https://example.org``.
    """

    token: str | None = None
    origins: Sequence[str] = field(default=())

    def problem(self, connection: HTTPConnection) -> str | None:
        """Return why a request is refused, in one sentence; None: it is allowed.

        A browser sends the origin of the page that opens a socket, so that no other site can use
        the microphone page's server through its visitors. Other clients send none.
        """
        origin = connection.headers.get("origin")
        if origin is not None and origin not in self.origins:
            host = connection.headers.get("host", "")
            if urlsplit(origin).netloc != host:
                return f"Pages of {origin} may not use this server."
        if self.token is not None:
            bearer = connection.headers.get("authorization", "").removeprefix("Bearer ")
            given = connection.query_params.get("token", bearer)
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                return "The address lacks the token of this server (?token=...)."
        return None


def application(hub: Hub, *, access: Access = Access()) -> Starlette:
    """Create the web application; its start and end start and end the engine.

    Args:
        hub: Systems, talks, limits and logs.
        access: Who may use the server.
    """
    model = next(iter(hub.systems))

    def guard(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
        def check_and_answer(request: Request) -> Response:
            if (problem := access.problem(request)) is not None:
                return PlainTextResponse(problem, 403)
            return answer(request)

        return check_and_answer

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
        samples = audio.load(talk.file, start=talk.offset, duration=talk.duration)
        return Response(audio.wav(samples), media_type="audio/wav")

    def realtime(address: Mapping[str, str]) -> Wire:
        return RealtimeWire(model, address.get("model"))

    routes: list[BaseRoute] = [
        Route("/", guard(page)),
        Route("/health", health),
        Route("/metrics", guard(metrics)),
        Route("/systems", guard(choices)),
        Route("/talks/{name}", guard(talk_audio)),
        Mount("/page", StaticFiles(directory=PAGE)),
        WebSocketRoute("/", _socket(hub, access, lambda address: SimulstreamWire())),
        WebSocketRoute("/v1/realtime", _socket(hub, access, realtime)),
    ]
    return Starlette(routes=routes, lifespan=_lifespan(hub))


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


def _socket(
    hub: Hub, access: Access, wire: Callable[[Mapping[str, str]], Wire]
) -> Callable[..., object]:
    """Return the endpoint of a protocol, whose wire depends on the query of the address."""

    async def endpoint(websocket: WebSocket) -> None:
        if access.problem(websocket) is not None:
            await websocket.close(POLICY)  # before it is accepted: the client receives a 403
            return
        await Connection(websocket, hub, wire(websocket.query_params)).serve()

    return endpoint


def _lifespan(hub: Hub) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return what starts the engine and the saving of logs, and ends both after all connections."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        hub.engine.start()
        saving = asyncio.create_task(hub.save())
        try:
            yield
        finally:
            saving.cancel()
            await hub.finish()

    return lifespan
