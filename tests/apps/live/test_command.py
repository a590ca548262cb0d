"""``python -m zoo live``: a process with the shipped InfiniSST, and what it refuses."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import torch
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import zoo
from tests.fixtures import processes
from zoo.base.audio import files as audio
from zoo.base.errors import BAD_INPUT
from zoo.base.languages import language
from zoo.base.talks import without_references
from zoo.data.minitalks import corpus
from zoo.extras.interop.realtime.endpoint import RealtimeEndpoint
from zoo.formats.logs import read_log
from zoo.streaming.queue import TalkQueue

SECONDS = 8  # of a talk
FILES = 256  # that the server may open
ROOT = processes.ROOT


@pytest.fixture(scope="module")
def wave() -> torch.Tensor:
    (talk,) = corpus.build("tst", talks=1)
    return audio.load(talk.file, start=0, duration=SECONDS)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Host and port of a running server, and its folder."""
    folder = tmp_path_factory.mktemp("live") / "run"
    given = ["port=0", "talks=1", "latency=[2,1]", f"hydra.run.dir={folder}"]
    command = [
        "bash",
        "-c",
        f'ulimit -n {FILES}; exec "$@"',
        "-",
        sys.executable,
        "-m",
        "zoo",
        "live",
    ]
    errors = folder.parent / "errors.txt"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [*command, *given], cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as server,
    ):
        assert server.stdout is not None
        found = re.search(r"http://([\d.]+:\d+)/", server.stdout.readline())
        assert found, errors.read_text()
        yield found[1], folder
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert "Traceback" not in errors.read_text() + (folder / "live.log").read_text()


def test_words_are_those_of_a_file(address: tuple[str, Path], wave: torch.Tensor) -> None:
    host, folder = address
    assert (folder / "live.log").is_file(), "open from the start"
    assert httpx.get(f"http://{host}/health").json() == {"status": "ready"}
    data = (wave * 32768).round().to(torch.int16)
    text = ""
    with connect(f"ws://{host}/") as client:
        client.send(json.dumps({"sample_rate": 16000, "source_lang": "en", "target_lang": "de"}))
        for piece in data.split(1600):
            client.send(piece.numpy().tobytes())
        client.send(json.dumps({"end_of_stream": True}))
        for message in map(json.loads, client):
            text += message.get("new", "")
            if "end_of_processing" in message:
                break
    system = zoo.load("infinisst")
    expected = system.translate(data.float() / 32768, sample_rate=16000).text
    assert text.strip() == expected.strip() != ""
    (log,) = folder.glob("stream-*/instances.log")
    assert read_log(log, language=language("de"))[0].text == text


def test_a_system_is_offered_at_several_latencies(address: tuple[str, Path]) -> None:
    (system,) = httpx.get(f"http://{address[0]}/systems").json()["systems"]
    assert (system["name"], system["knob"], system["value"]) == ("infinisst", "m", 2)
    assert system["latencies"] == [
        {"value": 2, "chunk_seconds": 1.92},
        {"value": 1, "chunk_seconds": 0.96},
    ]


def test_a_realtime_client_of_the_table_records_the_words_of_the_system(
    address: tuple[str, Path], wave: torch.Tensor, tmp_path: Path
) -> None:
    url = f"http://{address[0]}"
    audio.write(tmp_path / "talk.wav", wave[: 5 * 16_000])
    talk = without_references("talk", tmp_path / "talk.wav", 5.0, "en")
    live = RealtimeEndpoint(
        name="live", source_language="en", target_language="de", url=url, model="infinisst"
    )
    live.load()
    (found,) = live.stream(TalkQueue([talk]))
    expected = zoo.load("infinisst").translate(tmp_path / "talk.wav")
    assert found.text.strip() == expected.text.strip() != ""
    assert found.delays[-1] == found.source_length == 5.0
    assert list(found.delays) == sorted(found.delays)
    # the server waits for the same audio, and more is sent while it computes
    for at, delay, word in zip(found.elapsed, found.delays, expected.words, strict=True):
        assert at >= delay >= word.delay


def test_a_message_that_is_too_large_ends_its_connection_alone(address: tuple[str, Path]) -> None:
    host, _ = address

    def send_too_much() -> None:
        with connect(f"ws://{host}/") as client:
            client.send(bytes(10_000_000))
            client.recv(timeout=30)

    with connect(f"ws://{host}/") as other:
        with pytest.raises((ConnectionClosed, ConnectionError)):  # while sending, or after it
            send_too_much()
        other.send(json.dumps({"end_of_stream": True}))
        assert json.loads(other.recv(timeout=30)) == {"end_of_processing": True}


def test_more_connections_than_descriptors_leave_a_stream(address: tuple[str, Path]) -> None:
    host, folder = address
    with ExitStack() as stack:
        client = stack.enter_context(connect(f"ws://{host}/"))
        client.send(bytes(32_000))
        name, port = host.split(":")
        for _ in range(FILES + 50):
            stack.enter_context(socket.create_connection((name, int(port))))
        assert httpx.get(f"http://{host}/health", timeout=30).json() == {"status": "ready"}
        before = len(list(folder.glob("stream-*/instances.log")))
        client.send(json.dumps({"end_of_stream": True}))
        while "end_of_processing" not in json.loads(client.recv(timeout=30)):
            pass
    deadline = time.monotonic() + 30
    while len(list(folder.glob("stream-*/instances.log"))) == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["port=70000"], "The server needs port from 0 to 65535, not 70000."),
        (["port=a"], "port must be"),
        (["origins=3"], "origins must be"),
        (["token=[a]"], "token must be"),
        (["host=300.1.1.1"], "The server cannot listen at 300.1.1.1"),
        (["certificate=nothing.pem"], "TLS needs both certificate and certificate_key"),
        (["certificate=a.pem", "certificate_key=a.pem"], "There is no file a.pem (certificate)."),
        ([f"certificate={__file__}", f"certificate_key={__file__}"], "are no pair of PEM files"),
        (["token="], "token must have at least one letter"),
        (["host=0.0.0.0", "token="], "token must have at least one letter"),
        (["limits.streams=0"], "streams"),
        (["compare={a: 3}"], "compare"),
        (["latency=[]"], "latency must have at least one value and none twice, not []."),
        (["latency=[1,1]"], "latency must have at least one value and none twice, not [1, 1]."),
        (["latency=[1,null]"], "latency must have numbers only, not [1, None]."),
        (["latency=[1,a]"], "Knob m must be a whole number of at least 1, not 'a'."),
        (["latency=[1,2]", "system.latency_multiplier=3"], "both set the latency of system"),
        (
            ["latency=[1,2]", "system.knob.attribute=backbone.latency_tokens"],
            "The latency of system 'infinisst' sets backbone.latency_tokens, which",
        ),
        (["backbone.checkpoint=nowhere"], "nowhere"),
        (["data=aligned", "data.folder=nowhere"], "nowhere"),
    ],
)
def test_wrong_settings_end_in_one_sentence(
    given: list[str], sentence: str, tmp_path: Path
) -> None:
    done = processes.run("-m", "zoo", "live", *given, folder=tmp_path)
    assert done.returncode == BAD_INPUT, done.stderr[-2000:]
    *_, last = done.stderr.splitlines()
    assert last.startswith("error: ")
    assert sentence in last


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = processes.run("-m", "zoo", "live", f"port={port}", folder=tmp_path)
    assert done.returncode == BAD_INPUT
    assert f"The server cannot listen at 127.0.0.1, port {port}: " in done.stderr
