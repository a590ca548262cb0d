"""HTTP client of an OpenAI-compatible server: models, and answers that are streamed."""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import httpx

from zoo.base.errors import ZooError
from zoo.base.machine.deadline import LateError, call_within
from zoo.base.machine.secrets import mask_secrets
from zoo.base.types import Seconds
from zoo.extras.chat_server import answers
from zoo.extras.chat_server.answers import AnswerError, IncompleteError, ServerError, one_line

Reason = Literal["stop", "length", "cut"]
Result = TypeVar("Result")
BUSY = (408, 409, 425, 429, 500, 502, 503, 504)  # statuses after which a later request may succeed
UNLISTED = (404, 405, 500, 501)  # no list; transformers serve fails (500) without a hub cache
FIRST_PAUSE: Seconds = 0.5  # before the first retry; doubled before each further one
LONGEST_PAUSE: Seconds = 30.0
LONGEST_TOKEN = 16  # characters: more per token are the answer of a server without max_tokens
UNFINISHED = ("content_filter", "tool_calls", "function_call", "abort", "error")  # finish_reason
TOO_LONG = re.compile(r"context.?(length|window|size)|too (long|large)|longer than", re.IGNORECASE)


class RefusedError(ZooError):
    """The server answered that a request is wrong."""


class _Busy(Exception):
    """A request failed, and a later one may succeed. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer of the server.

    Attributes:
        text: The generated text.
        reason: Why it ends: the model ended it, it reached ``max_tokens``, or ``stop`` cut it.
    """

    text: str
    reason: Reason


class Client:
    """Sends requests to one server, from any number of threads.

    Attributes:
        ended: While it is set, all requests end with an error.
    """

    def __init__(
        self, url: str, *, key: str | None, timeout: Seconds, retries: int, connections: int
    ) -> None:
        """Prepare connections; no request is sent.

        Args:
            url: Address of the API, such as http://127.0.0.1:8000/v1.
            key: Key that is sent as a bearer token, or None.
            timeout: Longest time of a request, until the end of its answer.
            retries: Number of repetitions of a request that failed for a reason that may pass.
            connections: Maximum number of simultaneous connections.

        Raises:
            ZooError: If proxies or certificates of the environment cannot be used.
        """
        self.url = url.rstrip("/")
        self._key = key
        self._timeout = timeout
        self._retries = retries
        self.ended = threading.Event()
        try:
            self._http = httpx.Client(
                headers={"Authorization": f"Bearer {key}"} if key else {},
                timeout=timeout,
                limits=httpx.Limits(max_connections=connections),
            )
        except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
            raise ZooError(
                "A setting of the environment for HTTP (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, "
                f"NO_PROXY, SSL_CERT_FILE, SSL_CERT_DIR) cannot be used ({self._line(error)}); "
                "correct or unset it."
            ) from None
        for library in ("httpx", "httpcore"):  # they log every request otherwise
            logging.getLogger(library).setLevel(logging.WARNING)

    def mask_secrets(self, text: str) -> str:
        """Return a text without the key."""
        return mask_secrets(text, self._key)

    def models(self) -> list[str]:
        """Return the names of the models that the server lists; empty if it has no list.

        Raises:
            ZooError: If the server cannot be reached or refuses the key.
        """
        return self._persist(self._list)

    def complete(self, body: Mapping[str, Any], stop: Callable[[str], bool]) -> Completion:
        """Request an answer and read it while it is generated.

        Args:
            body: JSON body of the request, without ``stream``.
            stop: Receives the text up to each character; True ends the answer there, and the
                connection is closed so that the server stops as well.

        Raises:
            RefusedError: If the server refuses the request.
            ZooError: If the server cannot be reached, fails repeatedly, or sends no choices.
        """
        return self._persist(
            lambda abandoned: self._complete({**body, "stream": True}, stop, abandoned)
        )

    def _persist(self, send: Callable[[threading.Event], Result]) -> Result:
        """Call ``send`` until it succeeds, with growing pauses between the calls."""
        pause = FIRST_PAUSE
        for retry in range(self._retries + 1):
            try:
                return call_within(self._timeout, send, self.ended)
            except (httpx.TimeoutException, LateError):
                if self.ended.is_set():
                    raise ZooError(f"The request to the server {self.url} was ended.") from None
                reason = f"has not answered within {self._timeout:g} s (backbone.timeout_seconds)"
            except httpx.DecodingError as error:
                reason = f"sends what cannot be decompressed ({self._line(error)})"
            except httpx.RequestError as error:
                reason = f"cannot be reached ({self._line(error)})"
            except (_Busy, IncompleteError) as error:
                reason = f"fails ({error})"
            except AnswerError as error:
                raise RefusedError(
                    f"The server {self.url} sent {self._line(error)}; backbone.url must be that "
                    "of an OpenAI-compatible API, such as http://127.0.0.1:8000/v1."
                ) from None
            except (httpx.InvalidURL, UnicodeError) as error:
                raise ZooError(
                    f"backbone.url={self.url} is no address ({self._line(error)})."
                ) from None
            if retry < self._retries:
                self.ended.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        raise ZooError(
            f"The server {self.url} {reason}, also after {self._retries} retries; start it, or "
            "correct backbone.url."
        )

    def _list(self, abandoned: threading.Event) -> list[str]:
        with self._http.stream("GET", f"{self.url}/models") as response:
            if response.status_code in UNLISTED:
                return []
            self._check(response, abandoned)
            return answers.models(answers.read(_body(response, abandoned)))

    def _complete(
        self, body: Mapping[str, Any], stop: Callable[[str], bool], abandoned: threading.Event
    ) -> Completion:
        text, reason = "", None
        address = f"{self.url}/chat/completions"
        with self._http.stream("POST", address, json=body) as response:
            self._check(response, abandoned)
            events = "event-stream" in response.headers.get("content-type", "")
            try:
                for piece in answers.pieces(_body(response, abandoned), events=events):
                    reason = piece.reason or reason or "stop"
                    for sign in piece.text:
                        text += sign
                        if stop(text):
                            return Completion(text, "cut")
                        if len(text) >= LONGEST_TOKEN * body["max_tokens"]:
                            return Completion(text, "length")
            except ServerError as error:
                raise self._refusal(0, str(error)) from None
        if reason is None:
            raise AnswerError("an answer without choices")
        if reason in UNFINISHED:
            raise RefusedError(f"The server {self.url} has not finished an answer ({reason}).")
        return Completion(text, "length" if reason == "length" else "stop")

    def _check(self, response: httpx.Response, abandoned: threading.Event) -> None:
        """Raise an error that contains the server's own text unless a response is a success."""
        if response.is_success:
            return
        detail = answers.detail(answers.read(_body(response, abandoned)))
        if response.status_code in BUSY and not TOO_LONG.search(detail):
            raise _Busy(self._shown(response.status_code, detail))
        raise self._refusal(response.status_code, detail)

    def _refusal(self, status: int, detail: str) -> RefusedError:
        shown = self._shown(status, detail)
        if TOO_LONG.search(detail):
            return RefusedError(
                f"Audio and text are too long for the model of {self.url} ({shown}); choose a "
                "history or policy.max_seconds that keeps less audio, a shorter document or "
                "glossary of context=..., or a server with a longer context."
            )
        return RefusedError(f"The server {self.url} refuses a request ({shown}).")

    def _shown(self, status: int, detail: str) -> str:
        """Return status and text of an error in one line, without the key."""
        return ": ".join(text for text in (str(status or ""), self._line(detail)) if text)

    def _line(self, text: object) -> str:
        """Return a text or the message of an error in one line, without the key."""
        return one_line(self.mask_secrets(str(text)))


def _body(response: httpx.Response, abandoned: threading.Event) -> Iterator[bytes]:
    """Yield the parts of a body. Raises LateError once nobody waits for them."""
    for part in response.iter_bytes():
        if abandoned.is_set():
            raise LateError
        yield part
