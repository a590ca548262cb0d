"""Requests that fail: each ends in one sentence, without the key."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.fixtures.chat_server import ChatModel, serving
from tests.fixtures.streams import white_noise
from zoo.base.errors import ZooError
from zoo.base.machine.secrets import read_key
from zoo.extras.chat_server import client as module
from zoo.extras.chat_server.answers import LONGEST_DETAIL
from zoo.extras.chat_server.chat_server import ChatServer
from zoo.extras.chat_server.client import Client
from zoo.extras.chat_server.prompt import wav

Connect = Callable[..., Client]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """``connect(model)``: a client of a server that answers as the model does."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    with ExitStack() as stack:

        def start(model: ChatModel, **given: Any) -> Client:
            url = stack.enter_context(serving(model))
            return Client(
                url, **{"key": None, "timeout": 20, "retries": 2, "connections": 4} | given
            )

        yield start


def body(samples: int = 16_000) -> dict[str, Any]:
    """A request to transcribe noise."""
    audio = {
        "type": "input_audio",
        "input_audio": {"data": wav(white_noise(samples)), "format": "wav"},
    }
    content = [audio, {"type": "text", "text": "Use <sep>."}]
    message = {"role": "user", "content": content}
    return {"model": "tiny", "messages": [message], "temperature": 0, "max_tokens": 50}


def complete(client: Client) -> str:
    return client.complete(body(), lambda text: False).text


def test_an_answer_in_events_equals_one_in_a_single_object(connect: Connect) -> None:
    answers = [
        complete(connect(ChatModel(streams=streams, piece=piece)))
        for streams, piece in ((True, 1), (True, 100), (False, 1))
    ]
    assert len(set(answers)) == 1
    assert answers[0]


def test_reading_ends_where_the_answer_is_cut(connect: Connect) -> None:
    client = connect(ChatModel(piece=7))
    whole = complete(client)
    completion = client.complete(body(), lambda text: len(text) == 5)
    assert (completion.text, completion.reason) == (whole[:5], "cut")


def test_a_request_is_repeated_while_the_server_is_busy(connect: Connect) -> None:
    model = ChatModel(refusals=[(503, "starting"), (429, {"error": "rate"})])
    assert complete(connect(model)) == complete(connect(ChatModel()))
    assert len(model.requests) == 3

    model = ChatModel(refusals=[(503, "starting")] * 3)
    with pytest.raises(ZooError, match=r"fails \(503: starting\), also after 2 retries; start it"):
        complete(connect(model))


def test_what_the_server_refuses_is_not_repeated(connect: Connect) -> None:
    model = ChatModel(refusals=[(400, {"error": {"message": "no\naudio."}})])
    with pytest.raises(ZooError, match=r"^The server \S+ refuses a request \(400: no audio\)\.$"):
        complete(connect(model))
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (400, {"message": "This model's maximum context length is 10 tokens."}),
        (500, {"error": {"message": "The input (9 tokens) is longer than the model's context."}}),
        (200, {"error": "context window exceeded"}),
    ],
)
def test_a_context_that_is_too_short_is_named(
    connect: Connect, status: int, content: dict[str, Any]
) -> None:
    with pytest.raises(ZooError, match=r"^Audio and text are too long .* keeps less audio"):
        complete(connect(ChatModel(refusals=[(status, content)])))


@pytest.mark.parametrize("content", [{}, {"choices": []}, {"choices": None}])
def test_an_answer_without_choices_is_an_error(connect: Connect, content: object) -> None:
    with pytest.raises(ZooError, match="sent an answer without choices"):
        complete(connect(ChatModel(refusals=[(200, content)])))


def test_a_server_that_is_not_there_or_silent_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):  # a proxy would answer instead
        monkeypatch.setenv(name, "127.0.0.1")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        client = Client(url, key=None, timeout=5, retries=1, connections=1)
        with pytest.raises(ZooError, match=rf"^The server {url} cannot be reached \(.*\), also"):
            client.models()

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        client = Client(url, key=None, timeout=0.05, retries=1, connections=1)
        with pytest.raises(
            ZooError, match=r"has not answered within 0\.05 s .*, also after 1 retries"
        ):
            complete(client)


def test_a_server_without_a_list_of_models_has_no_names(connect: Connect) -> None:
    assert connect(ChatModel(models=["a", "b"])).models() == ["a", "b"]
    assert connect(ChatModel(models=None)).models() == []


def test_the_key_is_sent_and_never_shown(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ChatModel(key="sk-secret")
    assert connect(model, key="sk-secret").models() == ["tiny"]
    with pytest.raises(
        ZooError, match=r"401: Incorrect API key provided: Bearer \*\*\*"
    ) as refused:
        connect(model, key="sk-wrong").models()
    assert "sk-" not in str(refused.value)

    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    backbone = ChatServer(url="http://127.0.0.1:9/v1", api_key_variable="NO_SUCH_KEY")
    with pytest.raises(ZooError, match="environment variable NO_SUCH_KEY is not set"):
        backbone.load()


@pytest.mark.parametrize("key", ["sk-first\nsk-second", "sk-a b", "sk-\x07", "sk-\udcff", "sk-ä"])
def test_a_key_that_cannot_be_sent_is_refused(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", key)
    backbone = ChatServer(url="http://127.0.0.1:9/v1", api_key_variable="SOME_KEY")
    with pytest.raises(ZooError, match=r"SOME_KEY must be printable ASCII") as refused:
        backbone.load()
    assert "sk-" not in str(refused.value)


def test_white_space_around_a_key_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-secret\n")
    assert read_key("SOME_KEY", "backbone.api_key_variable") == "sk-secret"


def test_a_key_instead_of_a_variable_is_not_shown() -> None:
    with pytest.raises(ZooError, match="must be the name of an environment variable") as refused:
        ChatServer(url="http://127.0.0.1:9/v1", api_key_variable="sk-secret")
    assert "sk-" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["bad {}", "bad {!r}", "bad a/b%2Bc%22d", "bad a%2Fb%2Bc%22d", 'bad b"a/b+c\\"d"']
)
def test_the_key_is_masked_in_errors_of_the_http_library(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = 'a/b+c"d'
    client = Client("http://127.0.0.1:9/v1", key=key, timeout=1, retries=0, connections=1)

    def fail(method: str, url: str) -> None:
        raise httpx.LocalProtocolError(text.format(key))

    monkeypatch.setattr(client._http, "stream", fail)
    with pytest.raises(ZooError, match=r"cannot be reached \(bad .*\*\*\*.*\)") as failed:
        client.models()
    assert "b+c" not in str(failed.value)
    assert "b%2Bc" not in str(failed.value)
    assert failed.value.__cause__ is None


def test_no_part_of_a_key_remains_where_a_text_is_cut(connect: Connect) -> None:
    key = "sk-0123456789"
    long = "x" * (LONGEST_DETAIL - 5) + key
    client = connect(ChatModel(refusals=[(400, {"error": long})]), key=key)
    with pytest.raises(ZooError, match=r"refuses a request") as refused:
        complete(client)
    assert "sk-" not in str(refused.value)
