"""HTTP client of an OpenAI-compatible server: models, and answers that are streamed."""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import httpx

from zoo.config.secrets import mask_secrets
from zoo.errors import ZooError
from zoo.types import Seconds

Reason = Literal["stop", "length", "cut"]
Result = TypeVar("Result")
LONGEST_DETAIL = 300  # characters of a server's error text in a message
BUSY = (408, 409, 425, 429, 500, 502, 503, 504)  # statuses after which a later request may succeed
UNLISTED = (404, 405, 500, 501)  # no list; transformers serve fails (500) without a hub cache
FIRST_PAUSE: Seconds = 0.5  # before the first retry; doubled before each further one
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
    """Sends requests to one server, from any number of threads."""

    def __init__(
        self, url: str, *, key: str | None, timeout: Seconds, retries: int, connections: int
    ) -> None:
        """Prepare connections; no request is sent.

        Args:
            url: Address of the API, such as http://127.0.0.1:8000/v1.
            key: Key that is sent as a bearer token, or None.
            timeout: Longest time without any byte from the server.
            retries: Number of repetitions of a request that failed for a reason that may pass.
            connections: Maximum number of simultaneous connections.
        """
        self.url = url.rstrip("/")
        self._key = key
        self._retries = retries
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeout,
            limits=httpx.Limits(max_connections=connections),
        )
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
        listed = self._persist(self._list)
        entries = listed.get("data") if isinstance(listed, Mapping) else None
        entries = entries if isinstance(entries, list) else []
        return [
            str(entry["id"]) for entry in entries if isinstance(entry, Mapping) and "id" in entry
        ]

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
        return self._persist(lambda: self._complete({**body, "stream": True}, stop))

    def _persist(self, send: Callable[[], Result]) -> Result:
        """Call ``send`` until it succeeds, with growing pauses between the calls."""
        pause = FIRST_PAUSE
        for retry in range(self._retries + 1):
            try:
                return send()
            except httpx.TimeoutException as error:
                problem: Exception = error
                reason = f"sent nothing for {self._http.timeout.read:g} s"
            except httpx.RequestError as error:
                shown = _one_line(self.mask_secrets(str(error)))
                problem, reason = error, f"cannot be reached ({shown})"
            except _Busy as error:
                problem, reason = error, f"fails ({error})"
            if retry < self._retries:
                threading.Event().wait(pause)
                pause *= 2
        raise ZooError(
            f"The server {self.url} {reason}, also after {self._retries} retries; start it, or "
            "correct backbone.url."
        ) from (problem if self.mask_secrets(str(problem)) == str(problem) else None)

    def _list(self) -> Any:
        response = self._http.get(f"{self.url}/models")
        if response.status_code in UNLISTED:
            return None
        self._check(response)
        return _parsed(response.text)

    def _complete(self, body: Mapping[str, Any], stop: Callable[[str], bool]) -> Completion:
        text, reason, choices = "", "stop", 0
        with self._http.stream("POST", f"{self.url}/chat/completions", json=body) as response:
            self._check(response)
            for event in _events(response):
                if "error" in event:
                    raise self._refusal(0, _detail(event))
                for choice in event.get("choices") or []:
                    choices += 1
                    message = choice.get("delta") or choice.get("message") or {}
                    reason = choice.get("finish_reason") or reason
                    for sign in message.get("content") or "":
                        text += sign
                        if stop(text):
                            return Completion(text, "cut")
        if not choices:
            raise RefusedError(
                f"The server {self.url} sent an answer without choices; backbone.url must be that "
                "of an OpenAI-compatible API, such as http://127.0.0.1:8000/v1."
            )
        return Completion(text, "length" if reason == "length" else "stop")

    def _check(self, response: httpx.Response) -> None:
        """Raise an error that contains the server's own text unless a response is a success."""
        if response.is_success:
            return
        response.read()
        content = _parsed(response.text)
        detail = _detail(content) if isinstance(content, Mapping) else response.text
        if response.status_code in BUSY and not TOO_LONG.search(detail):
            raise _Busy(self._shown(response.status_code, detail))
        raise self._refusal(response.status_code, detail)

    def _refusal(self, status: int, detail: str) -> RefusedError:
        shown = self._shown(status, detail)
        if TOO_LONG.search(detail):
            return RefusedError(
                f"Audio and text are too long for the model of {self.url} ({shown}); choose a "
                "history or policy.max_seconds that keeps less audio, or a server with a longer "
                "context."
            )
        return RefusedError(f"The server {self.url} refuses a request ({shown}).")

    def _shown(self, status: int, detail: str) -> str:
        """Return status and text of an error in one line, without the key."""
        line = _one_line(self.mask_secrets(detail))
        return ": ".join(text for text in (str(status or ""), line) if text)


def _events(response: httpx.Response) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a stream of server-sent events, or of a plain JSON response."""
    if "event-stream" not in response.headers.get("content-type", ""):
        response.read()
        content = _parsed(response.text)
        yield content if isinstance(content, Mapping) else {}
        return
    for line in response.iter_lines():
        field, _, value = line.partition(":")
        if field != "data" or value.strip() == "[DONE]":
            continue
        content = _parsed(value)
        yield content if isinstance(content, Mapping) else {}


def _parsed(text: str) -> Any:
    """Parse JSON; None for other text."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _detail(content: Mapping[str, Any]) -> str:
    """Return the text of an error response: vLLM, SGLang and FastAPI nest it differently."""
    for name in ("error", "message", "detail"):
        value = content.get(name)
        if isinstance(value, Mapping):
            return _detail(value)
        if value:
            return str(value)
    return json.dumps(content)


def _one_line(text: str) -> str:
    """Return a text in one line of limited length, without a full stop."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= LONGEST_DETAIL else f"{line[:LONGEST_DETAIL]}..."
