"""Servers that send what no server should: one sentence, within time and memory."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, repeat
from typing import Any

import pytest

from zoo.base.errors import ZooError
from zoo.extras.chat_server import client as module
from zoo.extras.chat_server.chat_server import ChatServer
from zoo.extras.chat_server.client import Client, Completion

LISTED = b'{"data": [{"id": "m"}]}'


def head(kind: str = "application/json", *more: str) -> bytes:
    """The beginning of an answer whose body ends with the connection."""
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", "Connection: close", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def event(content: Any = "a", reason: str | None = None, **choice: Any) -> bytes:
    """An event with a piece of an answer."""
    choices = [{"delta": {"content": content}, "finish_reason": reason, **choice}]
    return f"data: {json.dumps({'choices': choices}, ensure_ascii=False)}\n\n".encode()


def stream(*events: bytes) -> bytes:
    """A whole answer of some events."""
    return head("text/event-stream") + b"".join(events)


def single(**content: Any) -> bytes:
    """A whole answer of one object."""
    return head() + json.dumps(content).encode()


@contextmanager
def sending(*answers: bytes | Iterable[bytes], pause: float = 0) -> Iterator[str]:
    """Serve each request with the next answer, the last one repeatedly; the API's URL."""
    server = socket.create_server(("127.0.0.1", 0))
    rest = chain(answers, repeat(answers[-1]))

    def answer(connection: socket.socket, parts: bytes | Iterable[bytes]) -> None:
        with closing(connection):
            request = connection.recv(1 << 16)
            if request.startswith(b"POST"):
                while not request.endswith(b"}"):  # of the JSON body
                    request += connection.recv(1 << 16)
            try:
                for part in [parts] if isinstance(parts, bytes) else parts:
                    connection.sendall(part)
                    time.sleep(pause)
            except OSError:  # the client has read enough
                pass

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection, next(rest)), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


def complete(
    url: str, *, timeout: float = 20, retries: int = 1, max_tokens: int = 100
) -> Completion:
    client = Client(url, key=None, timeout=timeout, retries=retries, connections=2)
    return client.complete({"messages": [], "max_tokens": max_tokens}, lambda text: False)


def refused(url: str, **options: Any) -> str:
    with pytest.raises(ZooError) as raised:
        complete(url, **options)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1000
    return str(raised.value)


DONE = b"data: [DONE]\n\n"
WRONG = {  # what a request is answered with: a part of the sentence
    "no JSON": (head() + b"<html>hello</html>", "sent what is not JSON (<html>hello</html>)"),
    "empty": (head(), "sent what is not JSON (nothing)"),
    "a list": (single()[:-2] + b"[]", "sent what is no JSON object ([])"),
    "deep": (head() + b"[" * 100_000, "sent what is not JSON ([[["),
    "deep error": (head() + b'{"error":' * 900 + b"1" + b"}" * 900, "refuses a request (1)"),
    "digits": (head() + b'{"a":' + b"9" * 5000 + b"}", "sent what is not JSON ("),
    "choices": (single(choices="abc"), "'choices' is no list but str"),
    "a choice": (single(choices=[1]), "'choices[0]' is no object but int"),
    "message": (single(choices=[{"message": "a"}]), "'message' is no object but str"),
    "delta": (stream(event(delta=[1])), "'delta' is no object but list"),
    "content": (stream(event(3)), "'content' is no text but int"),
    "a part": (stream(event([3])), "'content' is no object but int"),
    "reason": (stream(event(finish_reason=3)), "'finish_reason' is no text but int"),
    "an event": (stream(event(), b"data: {broken\n\n", DONE), "sent what is not JSON ({broken)"),
    "a number": (stream(event(), b"data: 7\n\n", DONE), "sent what is no JSON object (7)"),
    "error": (stream(event(), b'data: {"error": {"message": "no"}}\n\n'), "a request (no)"),
    "filter": (stream(event(reason="content_filter"), DONE), "not finished an answer (content_"),
    "early": (stream(event(), event()), "it closed the connection before the answer had ended"),
    "within an event": (stream(event(), event()[:-9]), "it closed the connection before the"),
    "gzip": (head("application/json", "Content-Encoding: gzip") + b"abc", "decompressed"),
    "a bomb": (
        head("application/json", "Content-Encoding: gzip") + gzip.compress(bytes(1 << 26)),
        "sent more than 16 MiB as one answer",
    ),
    "no HTTP": (b"hello\r\n\r\n", "cannot be reached"),
    "a redirect": (b"HTTP/1.1 301 Moved\r\nLocation: /a\r\nContent-Length: 0\r\n\r\n", "(301)"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_an_answer_of_another_form(kind: str) -> None:
    answer, sentence = WRONG[kind]
    with sending(answer) as url:
        assert sentence in refused(url)


ENDLESS = {
    "a body": (head(), repeat(b"x" * (1 << 20)), 0.0),
    "a line": (head("text/event-stream"), repeat(b"x" * (1 << 20)), 0.0),
    "events without text": (head("text/event-stream"), repeat(event("") * 9999), 0.0),
    "a slow body": (head(), repeat(b" "), 0.05),
    "slow comments": (head("text/event-stream"), repeat(b": wait\n\n"), 0.05),
    "slow headers": (b"HTTP/1.1 200 OK\r\n", repeat(b"a: b\r\n"), 0.05),
    "slow lines": (head("text/event-stream", "Transfer-Encoding: chunked"), repeat(b"1;"), 0.05),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_answer_without_an_end(kind: str) -> None:
    start, parts, pause = ENDLESS[kind]
    with sending(chain([start], parts), pause=pause) as url:
        before = time.monotonic()
        sentence = refused(url, retries=0, timeout=20 if pause == 0 else 0.4)
    assert time.monotonic() - before < 10
    assert "has not answered within 0.4 s" in sentence or "more than 16 MiB" in sentence


def test_a_server_that_ignores_the_limit_of_tokens() -> None:
    with sending(chain([head("text/event-stream")], repeat(event("word ")))) as url:
        completion = complete(url, max_tokens=3)
    assert completion.reason == "length"
    assert len(completion.text) == 3 * module.LONGEST_TOKEN


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\ufeff"])
def test_a_piece_may_have_any_separator(sign: str) -> None:
    texts = ["Julia", f"{sign}Geld", " aus."]
    with sending(stream(*map(event, texts), event("", "stop"), DONE)) as url:
        assert complete(url).text == "".join(texts)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_of_events_may_end_in_three_ways(end: str) -> None:
    object_ = json.dumps({"choices": [{"delta": {"content": "ab"}}]})
    first, second = object_[:12], object_[12:]
    lines = [": comment", "event: x", f"data: {first}", f"data:{second}", "", "data: [DONE]", ""]
    body = "".join(line + end for line in [*lines, ""]).encode()
    parts = [head("text/event-stream"), *(bytes([byte]) for byte in body)]
    with sending(parts) as url:
        assert complete(url).text == "ab"


@pytest.mark.parametrize(
    "body", [b"x" * 99, b'{"data": 3}', b'{"data": [1, {"id": 3}]}', b"[" * 9999]
)
def test_a_list_of_models_of_another_form_is_none(body: bytes) -> None:
    with sending(head() + body) as url:
        backbone = ChatServer(url=url, retries=0)
        with pytest.raises(ZooError, match=r"lists 0 models, so backbone\.model must name one"):
            backbone.load()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1"),
        ("HTTP_PROXY", "socks9://127.0.0.1:1"),
        ("HTTP_PROXY", "http://[::1"),
        ("SSL_CERT_FILE", "/nowhere/ca.pem"),
        ("SSL_CERT_FILE", __file__),
    ],
)
def test_settings_of_the_environment(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv(variable.lower(), value)
    backbone = ChatServer(url="http://host.invalid/v1", retries=0)
    with pytest.raises(ZooError, match=r"SSL_CERT_FILE.* cannot be used"):
        backbone.load()


@pytest.mark.parametrize(
    "url",
    [
        "http://host name/v1",
        "http://[::1/v1",
        "http://a\x00b/v1",
        "http://host/v1#part",
        "http://host/v1?",
        "http:///v1",
        "http://host:port/v1",
        f"http://{'a' * 64}.invalid/v1",
        "http://a..b/v1",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ZooError, match=r"backbone\.url"):
        ChatServer(url=url, retries=0).load()


@pytest.mark.parametrize(
    "option",
    [
        {"timeout_seconds": 1e300},
        {"timeout_seconds": float("nan")},
        {"longest_seconds": float("inf")},
        {"retries": 10**9},
        {"max_tokens": 10**5000},
        {"connections": 10**400},
    ],
)
def test_limits_have_limits(option: dict[str, Any]) -> None:
    with pytest.raises(ZooError, match=r"^A chat server needs \w+ (from|above) .*, not "):
        ChatServer(**option)
