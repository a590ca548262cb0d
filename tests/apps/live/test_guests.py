"""Hostile clients at the port of a server: each ends alone, and others are served."""

import asyncio
import json
import logging
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.apps.live.conftest import Echo, Serve
from tests.apps.live.site import serving
from tests.apps.live.test_server import log, reason, received, spoken
from zoo.apps.live import hub as hubs
from zoo.apps.live.faults import LoopFaults, log_faults
from zoo.apps.live.guard import POLICY, Access
from zoo.apps.live.hub import Hub
from zoo.apps.live.settings import Address, Limits
from zoo.base.errors import ZooError
from zoo.base.types import Action
from zoo.systems.base import StreamingSystem

PATIENCE = 30  # seconds
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
MASK = bytes(4)
EMPTY_TEXT, EMPTY_CONTINUATION = b"\x01\x80" + MASK, b"\x00\x80" + MASK  # neither is the last frame
PING = b"\x89\xfd" + MASK + bytes(125)


class Verbose(Echo):
    """Writes 100,000 letters per chunk."""

    def step(self, sessions: Any, chunks: Any) -> list[Action]:
        return [Action(text="x" * 100_000) for _ in super().step(sessions, chunks)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[str, int]]]:
    """``start(Echo(), connections=20)`` starts a server and returns its host and port."""
    with ExitStack() as stack:

        def begin(echo: Echo, **limits: Any) -> tuple[str, int]:
            systems = {"echo": [cast("StreamingSystem", echo)]}
            hub = Hub(systems, limits=Limits(**limits), folder=tmp_path)
            parts = urlsplit(stack.enter_context(serving(hub)).address)
            assert parts.hostname
            assert parts.port
            return parts.hostname, parts.port

        yield begin


def is_served(address: tuple[str, int]) -> bool:
    """Whether a client receives its words."""
    with connect("ws://{}:{}/".format(*address), open_timeout=PATIENCE) as client:
        client.send(spoken(10))
        client.send(json.dumps({"end_of_stream": True}))
        answers = [json.loads(client.recv(timeout=PATIENCE)) for _ in range(2)]
    return answers[0]["new"] == " 10" and answers[1] == {"end_of_processing": True}


def ends(client: socket.socket) -> bool:
    """Whether the server ends a connection."""
    client.settimeout(PATIENCE)
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def test_silent_connections_give_way_to_clients(start: Any) -> None:
    address = start(Echo(), connections=20)
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(60)]
        assert is_served(address)
        assert ends(silent[0])


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc", b"\x16\x03\x01"])
def test_a_request_must_be_complete_in_time(
    sent: bytes, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.apps.live.listening.REQUEST", 0.2)
    with socket.create_connection(start(Echo())) as client:
        client.sendall(sent)
        assert ends(client)


def test_a_connection_has_one_request(start: Any) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(start(Echo())) as client:
        client.sendall(2 * request)
        client.settimeout(PATIENCE)
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert b"connection: close" in answer


def test_a_body_that_never_ends_is_not_read(start: Any) -> None:
    with socket.create_connection(start(Echo())) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\nab")
        assert ends(client)


@pytest.mark.parametrize(
    "frames", [EMPTY_TEXT + 5000 * EMPTY_CONTINUATION, 60_000 * PING], ids=["fragments", "pings"]
)
def test_floods_of_frames_end_their_connection(frames: bytes, start: Any) -> None:
    address = start(Echo())
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.settimeout(PATIENCE)
        client.sendall(HANDSHAKE)
        assert client.recv(4096).startswith(b"HTTP/1.1 101 ")
        try:
            client.sendall(frames)
        except ConnectionError:
            pass
        else:
            assert ends(client)
    assert is_served(address)


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
        HANDSHAKE + b"\x81\x82" + MASK + b"\xff\xfe",  # no UTF-8
        b"\x00garbage\r\n\r\n",
    ],
)
def test_what_a_client_sends_leads_to_no_traceback(
    sent: bytes, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(start(Echo())) as client:
        handshake = sent.find(b"\x81") if sent.startswith(HANDSHAKE) else len(sent)
        client.sendall(sent[:handshake])
        if sent[handshake:]:
            assert client.recv(4096).startswith(b"HTTP/1.1 101 ")
            client.sendall(sent[handshake:])
        assert ends(client)
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []


def test_a_message_in_many_frames_is_read(start: Any) -> None:
    with connect("ws://{}:{}/".format(*start(Echo()))) as client:
        audio = spoken(10)
        client.send(audio[start : start + 4] for start in range(0, len(audio), 4))
        assert json.loads(client.recv(timeout=PATIENCE))["new"] == " 10"


def test_a_client_that_reads_nothing_is_left(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.apps.live.connection.PATIENCE", 0.2)
    monkeypatch.setattr("zoo.apps.live.listening.LINGER", 0.2)
    address = start(Verbose(), unread_bytes=1 << 20)
    with connect("ws://{}:{}/".format(*address), max_queue=1, close_timeout=1) as client:
        client.send(spoken(*[10] * 200))
        assert client.recv(timeout=PATIENCE)
        metrics = "http://{}:{}/metrics".format(*address)
        deadline = time.monotonic() + PATIENCE
        while "simulzoo_live_connections 0" not in httpx.get(metrics).text:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with pytest.raises(ConnectionClosed):
            list(iter(lambda: client.recv(timeout=PATIENCE), None))


@pytest.mark.parametrize("name", ["\ud800.wav", "x" * 300, "a\0b.wav", "a\nb.wav", "\x1b[2J.wav"])
def test_a_name_that_no_file_can_have_is_refused(name: str, serve: Serve, tmp_path: Path) -> None:
    with serve().websocket_connect("/") as client:
        client.send_text(json.dumps({"metrics_metadata": {"wav_name": name}}))
        assert "error" in client.receive_json()
        client.send_json({"metrics_metadata": {"wav_name": "talk.wav"}})
        client.send_bytes(spoken(10))
        client.send_json({"end_of_stream": True})
        assert received(client)[0] == "10"
    assert log(tmp_path, 0) == "10"


def test_a_log_that_cannot_be_written_leaves_the_others(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def write(folder: Path, *args: Any, **kwargs: Any) -> None:
        if folder.name.endswith("0"):
            raise ValueError("not\na log")
        write_stream(folder, *args, **kwargs)

    write_stream = hubs.write_stream
    monkeypatch.setattr(hubs, "write_stream", write)
    monkeypatch.setattr(hubs, "SAVE_INTERVAL", 0.01)
    client = serve()
    with client.websocket_connect("/") as one, client.websocket_connect("/") as other:
        for open_socket in (one, other):
            open_socket.send_bytes(spoken(10))
            assert open_socket.receive_json()["new"] == " 10"
        assert log(tmp_path, 1) == "10", "while both run"
    assert "The log of stream-000000 cannot be written: ValueError not a log" in caplog.messages


def test_end_alone_makes_no_files(serve: Serve, tmp_path: Path) -> None:
    with serve().websocket_connect("/") as client:
        for _ in range(3):
            client.send_json({"end_of_stream": 1})
            assert client.receive_json() == {"end_of_processing": True}
    assert list(tmp_path.iterdir()) == []


def test_a_client_begins_few_streams_a_minute(serve: Serve) -> None:
    client = serve(streams_per_minute=2)
    for _ in range(2):
        with client.websocket_connect("/") as served:
            served.send_bytes(spoken(10))
            served.send_json({"end_of_stream": True})
            assert received(served)[0] == "10"
    with client.websocket_connect("/") as refused:
        refused.send_bytes(spoken(10))
        why = "A client begins at most 2 streams a minute on this server."
        assert reason(refused) == (1013, why)


@pytest.mark.parametrize(
    "value",
    ["x" * 900_000, ["x" * 900_000], 10**4000, "[" * 400 + "]" * 400, float("nan"), 1e400],
    ids=["long", "list", "number", "nested", "nan", "infinite"],
)
@pytest.mark.parametrize("key", ["system", "talk", "latency", "source_lang"])
def test_a_sentence_repeats_little_of_what_a_client_sends(
    key: str, value: object, serve: Serve
) -> None:
    text = value if str(value).startswith("[[") else json.dumps(value)
    with serve().websocket_connect("/") as client:
        client.send_text(f'{{"{key}": {text}}}')
        assert len(client.receive_json()["error"]) <= 1000
        client.send_json({"end_of_stream": True})
        assert received(client)[0] == ""


@pytest.mark.parametrize("path", ["/", "/systems", "/health", "/page/page.js", "/metrics"])
@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("localhost", True),
        ("localhost:8741", True),
        ("127.0.0.1:1", True),
        ("127.8.0.1", True),
        ("[::1]:8741", True),
        ("zoo.example", True),  # named in origins
        ("evil.example", False),
        ("evil.example:8741", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("192.168.0.1", False),
        ("[::1", False),
        ("[::1].evil.example", False),
        ("evil.example\\@localhost", False),
        ("localhost/evil.example", False),
        ("localhost:evil", False),
        ("", False),
    ],
)
def test_without_a_token_only_this_machine_is_answered(
    host: str, *, answered: bool, path: str, serve: Serve
) -> None:
    client = serve(access=Access(origins=("https://zoo.example",)))
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == (200 if answered else 403)
    if path == "/" and not answered:
        for url in ("/", "/v1/realtime"):
            headers = {"host": host, "origin": f"http://{host}"}
            with pytest.raises(WebSocketDisconnect) as refused:
                client.websocket_connect(url, headers=headers).__enter__()
            assert refused.value.code == POLICY


def test_a_host_does_not_replace_the_token(serve: Serve) -> None:
    client = serve(access=Access(token="secret"))
    for host in ("localhost/health?", "localhost/page/", "evil.example"):
        assert client.get("/systems", headers={"host": host}).status_code == 403
    answer = client.get("/systems?token=secret", headers={"host": "zoo.example"})
    assert answer.status_code == 200


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "", "http://\u00e4"])
def test_an_origin_that_is_none_is_refused(origin: str, serve: Serve) -> None:
    headers = {"origin": origin.encode("latin-1")}
    answer = serve().get("/", headers=cast("Any", headers))
    assert (answer.status_code, answer.text.startswith("Pages of ")) == (403, True)


def test_a_fault_of_the_event_loop_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    faults, loop = LoopFaults(), asyncio.new_event_loop()
    loop.close()
    for _ in range(3):
        error = OSError(24, "Too many\nopen files")
        faults(loop, {"message": "socket.accept() out of system resource", "exception": error})
    faults(loop, {"message": "other"})
    caplog.set_level(logging.ERROR)
    assert caplog.messages == [
        "socket.accept() out of system resource: OSError [Errno 24] Too many open files",
        "other",
    ]
    with log_faults("A test"):
        raise ValueError("a\n\x1b[1mb")
    assert caplog.messages[-1] == "A test: ValueError a ?[1mb"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_files_for_tls_are_a_pair(tmp_path: Path) -> None:
    for name, options in (
        ("one", ["-nodes"]),
        ("two", ["-nodes"]),
        ("locked", ["-passout=pass:a"]),
    ):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", "/CN=localhost"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        passing = [part for option in options for part in option.split("=", 1)]
        subprocess.run([*command, *passing, *files], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "text.pem").write_text("no certificate")

    def tls(certificate: str, key: str) -> object:
        files = {"certificate": f"{tmp_path}/{certificate}", "key": f"{tmp_path}/{key}"}
        return Address(host="127.0.0.1", port=0, **files).tls()

    assert tls("one.pem", "one.key") is not None
    wrong = [("one.key", "one.pem"), ("one.pem", "two.key"), ("text.pem", "one.key")]
    for certificate, key in wrong:
        with pytest.raises(ZooError, match=r"are no pair of PEM files: .+\.$"):
            tls(certificate, key)
    with pytest.raises(ZooError, match="is encrypted"):
        tls("locked.pem", "locked.key")


@pytest.mark.parametrize("token", ["", " ", "a b", "\u00e4", "\udcff"])
def test_a_token_has_signs_of_an_address(token: str) -> None:
    with pytest.raises(ZooError, match="token must have at least one"):
        Address(host="0.0.0.0", port=0, token=token)
