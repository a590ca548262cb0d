"""Who may use a live server, checked before any of its pages and sockets."""

import asyncio
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from zoo.apps.live.listening import Client, Listening
from zoo.apps.live.settings import is_loopback
from zoo.base.errors import shorten
from zoo.base.types import Seconds

POLICY = 1008  # close code of RFC 6455
STALL: Seconds = 30.0  # longest time in which a client reads nothing of a response
HOST = re.compile(r"(?:\[(.+)\]|([^:]+))(?::[0-9]*)?")  # its number in brackets, or name; port
FREE = ("/health", "/page/")  # what needs no token: it has nothing of the users


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use a server.

    Attributes:
        token: Secret that an address must have as ``token``, or a request as its bearer token;
            None: everybody on this machine.
        origins: Origins of other pages that may open sockets, such as ``https://example.org``.
    """

    token: str | None = None
    origins: Sequence[str] = field(default=())

    def problem(self, connection: HTTPConnection) -> str | None:
        """Return why a request is refused, in one sentence; None: it is allowed.

        A browser sends the origin of the page that opens a socket, so that no other site can use
        the microphone page's server through its visitors. Other clients send none. A site whose
        name leads to this machine has an equal origin and host, so that a server without a token
        also refuses hosts that are not this machine.
        """
        host = connection.headers.get("host", "")
        hosts = {_host(origin) for origin in self.origins}
        if self.token is None and host not in hosts and not is_loopback(_name(host)):
            return f"A server without a token does not answer at {shorten(host)!r}."
        if connection.scope["path"].startswith(FREE):
            return None

        origin = connection.headers.get("origin")
        if origin is not None and origin not in self.origins and _host(origin) != host:
            return f"Pages of {shorten(origin)!r} may not use this server."
        if self.token is not None:
            bearer = connection.headers.get("authorization", "").removeprefix("Bearer ")
            given = connection.query_params.get("token", bearer)
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                return "The address lacks the token of this server (?token=...)."
        return None


EVERYBODY = Access()


class Guard:
    """Middleware that refuses who may not use the server, and ends each connection.

    An HTTP connection has one request, so that none stays open between two.

    Args:
        app: The application.
        access: Who may use it.
        listening: The socket of the server; None: it has none, as in tests.
    """

    def __init__(self, app: ASGIApp, *, access: Access, listening: Listening | None) -> None:
        self._app = app
        self._access = access
        self._listening = listening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        client: Client = tuple(scope["client"] or ("", 0))
        if scope["type"] == "http":
            send = self._closing(send, client)
        if self._listening is not None:
            self._listening.admit(client)
        try:
            problem = self._access.problem(HTTPConnection(scope))
            if problem is None:
                await self._app(scope, receive, send)
            elif scope["type"] == "http":
                await PlainTextResponse(problem, 403)(scope, receive, send)
            else:  # before it is accepted: the client receives a 403
                await WebSocket(scope, receive, send).close(POLICY)
        finally:
            if self._listening is not None:
                self._listening.leave(client)

    def _closing(self, send: Send, client: Client) -> Send:
        """Return ``send`` of a response after which the connection ends."""
        listening = self._listening

        async def send_in_time(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["connection"] = "close"
            if listening is None:
                await send(message)
                return
            stalled = asyncio.get_running_loop().call_later(STALL, listening.end, client)
            try:
                await send(message)
            finally:
                stalled.cancel()

        return send_in_time


def _host(origin: str) -> str | None:
    """Return host and port of an origin; None: it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(host: str) -> str:
    """Return a host without its port; nothing for what is no host."""
    found = HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""
