"""The server over its sockets and pages, in this process."""

import base64
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient, WebSocketDenialResponse, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from tests.apps.live.conftest import CHUNK, Echo, Serve
from tests.apps.live.recordings import encode, pieces, speech_like
from tests.fixtures.streams import white_noise
from zoo.apps.live.guard import Access
from zoo.base.audio import files as audio
from zoo.base.languages import language
from zoo.base.talks import without_references
from zoo.formats.logs import read_log


def spoken(*loudness: int) -> bytes:
    """Audio of one chunk per number, as ``Echo`` reads it."""
    chunks = [torch.full((CHUNK,), one / 100 * 32768) for one in loudness]
    return torch.cat(chunks).to(torch.int16).numpy().tobytes()


def received(socket: WebSocketTestSession) -> tuple[str, list[Any]]:
    """The text until the end of the stream, and all messages."""
    messages = []
    while not messages or "end_of_processing" not in messages[-1]:
        messages.append(socket.receive_json())
    return "".join(message.get("new", "") for message in messages).strip(), messages


def log(folder: Path, number: int) -> str:
    """The text in the log of a stream, which is written after the client has its last message."""
    path = folder / f"stream-{number:06d}" / "instances.log"
    deadline = time.monotonic() + 30
    while not path.is_file():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return read_log(path, language=language("de"))[0].text.strip()


def reason(socket: WebSocketTestSession) -> tuple[int, str]:
    """Close code and reason of a server that closes, after its messages."""
    while True:
        try:
            socket.receive_json()
        except WebSocketDisconnect as closed:
            return closed.code, str(closed.reason)


def test_simulstream_s_clients_are_served(serve: Serve, tmp_path: Path) -> None:
    client = serve()
    with client.websocket_connect("/") as socket:
        socket.send_json({"sample_rate": 16000, "source_lang": "en", "target_lang": "de"})
        for piece in (spoken(10, 20)[:900], spoken(10, 20)[900:]):
            socket.send_bytes(piece)
        socket.send_json({"end_of_stream": True})
        text, messages = received(socket)
        assert text == "10 20"
        assert [message["delay"] for message in messages[:-1]] == [0.05, 0.1]
        socket.send_bytes(spoken(30))  # another stream of the same client
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == "30"
    assert [log(tmp_path, number) for number in range(2)] == ["10 20", "30"]


def test_the_log_of_a_running_stream_is_written_from_time_to_time(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.apps.live.hub.SAVE_INTERVAL", 0.01)
    with serve().websocket_connect("/") as socket:
        socket.send_json({"sample_rate": 16000, "metrics_metadata": {"wav_name": "mine.wav"}})
        socket.send_bytes(spoken(10))
        assert socket.receive_json()["new"].strip() == "10"
        assert log(tmp_path, 0) == "10", "while the stream runs"
        socket.send_bytes(spoken(20))
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == "20"
    deadline = time.monotonic() + 30
    while log(tmp_path, 0) != "10 20":  # written after the client has its last message
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_realtime_clients_are_served(serve: Serve) -> None:
    with serve().websocket_connect("/v1/realtime") as socket:
        assert socket.receive_json()["type"] == "session.created"
        socket.send_json({"type": "session.update", "model": "echo"})
        assert socket.receive_json()["session"]["model"] == "echo"
        socket.send_json({"type": "input_audio_buffer.commit"})
        data = base64.b64encode(spoken(10, 20)).decode()
        socket.send_json({"type": "input_audio_buffer.append", "audio": data})
        socket.send_json({"type": "input_audio_buffer.commit", "final": True})
        events = [socket.receive_json() for _ in range(3)]
    assert [event.get("delta") for event in events] == [" 10", " 20", None]
    assert events[-1] == {"type": "transcription.done", "text": "10 20"}


def test_streams_side_by_side_do_not_mix(serve: Serve) -> None:
    client = serve()
    with client.websocket_connect("/") as one, client.websocket_connect("/") as other:
        for loudness in range(5):
            one.send_bytes(spoken(loudness))
            other.send_bytes(spoken(50 + loudness))
        for socket in (one, other):
            socket.send_json({"end_of_stream": True})
        assert received(one)[0] == "0 1 2 3 4"
        assert received(other)[0] == "50 51 52 53 54"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("nonsense", "A text message must be a JSON object"),
        (json.dumps({"encoding": "mp3"}), "Unknown encoding 'mp3'; choose one of: pcm_s16le"),
        (json.dumps({"target_lang": "zh"}), "This server has no target 'zh'; it has: echo (en-de)"),
        (json.dumps({"system": ["a"]}), "This server has no system ['a']"),
        (json.dumps({"latency": 3}), "This server has no latency 3; it has: echo (en-de)"),
        (json.dumps({"talk": "a"}), "This server has no talk 'a'; it has: none."),
        (json.dumps({"talk": ["a"]}), "This server has no talk ['a']; it has: none."),
        (json.dumps({"sample_rate": 1}), "sample_rate must be a number from 4000"),
        ('{"system": ' + 900 * "[" + 900 * "]" + "}", "A message is nested too deeply."),
    ],
)
def test_audio_after_refused_settings_is_not_translated_by_others(
    message: str, sentence: str, serve: Serve, echo: Echo
) -> None:
    """simulstream's client reads no errors; others may send better settings."""
    client = serve()
    with client.websocket_connect("/") as socket:
        socket.send_text(message)
        assert sentence in socket.receive_json()["error"]
        socket.send_bytes(spoken(10))
        code, why = reason(socket)
        assert (code, why[:20]) == (1008, sentence[:20])
        assert echo.batches == []
    with client.websocket_connect("/") as socket:
        socket.send_text(message)
        assert sentence in socket.receive_json()["error"]
        socket.send_json({"target_lang": "de"})
        socket.send_bytes(spoken(10))
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == "10"


def test_half_a_sample_is_named_and_the_connection_lives(serve: Serve) -> None:
    with serve().websocket_connect("/") as socket:
        socket.send_bytes(b"abc")
        assert "a message has 3 bytes, no multiple of 2" in socket.receive_json()["error"]
        socket.send_bytes(spoken(10))
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == "10"


def appended(data: bytes) -> dict[str, str]:
    """An event with audio."""
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(data).decode()}


@pytest.mark.parametrize("name", ["WAV", "FLAC"])
def test_a_file_has_the_words_of_its_samples(name: str, serve: Serve) -> None:
    client = serve()
    samples = speech_like(2.0, 44_100)
    with client.websocket_connect("/") as socket:
        socket.send_json({"sample_rate": 44_100})
        socket.send_bytes(samples.tobytes())
        socket.send_json({"end_of_stream": True})
        expected = received(socket)[0]
    with client.websocket_connect("/") as socket:
        for data in pieces(encode(samples, name, 44_100), 5_000):
            socket.send_bytes(data)
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == expected
        socket.send_bytes(spoken(10))  # another stream, of samples
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == "10"
    with client.websocket_connect("/v1/realtime") as socket:
        for data in pieces(encode(samples, name, 44_100), 5_000):
            socket.send_json(appended(data))
        socket.send_json({"type": "input_audio_buffer.commit", "final": True})
        events = [socket.receive_json()]
        while events[-1]["type"] != "transcription.done":
            events.append(socket.receive_json())
    assert events[-1]["text"] == expected


def test_what_a_browser_records_is_translated(serve: Serve) -> None:
    with serve().websocket_connect("/") as socket:
        for data in pieces(encode(speech_like(2.0), "WebM"), 1_000):
            socket.send_bytes(data)
        socket.send_json({"end_of_stream": True})
        assert len(received(socket)[0].split()) == 2.0 / 0.05


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"FORM\0\0\1\0AIFFCOMM", "The audio is AIFF, which is not decoded"),
        (b"OggS\0" + bytes(4000), "The audio begins as Ogg, which cannot be decoded"),
        ((speech_like() / 32768).astype("<f4").tobytes(), "The audio looks like 32-bit"),
    ],
)
def test_audio_that_is_none_ends_its_client_alone(data: bytes, sentence: str, serve: Serve) -> None:
    client = serve()
    with client.websocket_connect("/") as other:
        other.send_bytes(spoken(10))
        with client.websocket_connect("/") as socket:
            socket.send_bytes(data)
            socket.send_json({"end_of_stream": True})
            code, why = reason(socket)
            assert code == 1003
            assert why.startswith(sentence)
        other.send_json({"end_of_stream": True})
        assert received(other)[0] == "10"


def test_a_file_of_hours_in_one_message_is_bounded(serve: Serve) -> None:
    """Silence takes few bytes."""
    data = encode(np.zeros(60 * 48_000, np.int16), "FLAC")
    assert len(data) < 20_000
    with serve(stream_seconds=5).websocket_connect("/") as socket:
        socket.send_bytes(data)
        socket.send_json({"end_of_stream": True})
        assert reason(socket)[0] == 1008


@pytest.mark.parametrize(
    "session",
    [
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}}},
        {"audio": {"input": {"format": {"type": "audio/pcm"}}}},
        {"input_audio_format": "pcm16"},
        {"sample_rate": 24_000},
    ],
)
def test_the_rate_of_a_realtime_session_is_used(session: Any, serve: Serve) -> None:
    with serve().websocket_connect("/v1/realtime") as socket:
        socket.send_json({"type": "session.update", "session": session})
        socket.send_json(appended(speech_like(2.0, 24_000).tobytes()))
        socket.send_json({"type": "input_audio_buffer.commit", "final": True})
        events = [socket.receive_json()]
        while events[-1]["type"] != "transcription.done":
            events.append(socket.receive_json())
    assert events[1]["type"] == "session.updated"
    assert len(events[-1]["text"].split()) == 2.0 / 0.05


def test_the_model_of_the_address_is_used_or_refused(serve: Serve) -> None:
    client = serve()
    with client.websocket_connect("/v1/realtime?model=echo") as socket:
        assert socket.receive_json()["session"]["model"] == "echo"
    with client.websocket_connect("/v1/realtime?model=gpt-realtime") as socket:
        event = socket.receive_json()
        assert "This server has no system 'gpt-realtime'" in event["error"]["message"]
        assert reason(socket)[0] == 1008


def test_a_refused_model_is_not_confirmed_later(serve: Serve) -> None:
    with serve().websocket_connect("/v1/realtime") as socket:
        assert socket.receive_json()["session"]["model"] == "echo"
        socket.send_json({"type": "session.update", "session": {"model": "other"}})
        assert socket.receive_json()["type"] == "error"
        socket.send_json({"type": "session.update", "session": {"target_language": "de"}})
        assert socket.receive_json()["session"]["model"] == "echo"


def test_a_client_chooses_a_latency(serve: Serve) -> None:
    slow, fast = Echo(2), Echo(1)
    client = serve(echoes=[slow, fast])
    (system,) = client.get("/systems").json()["systems"]
    assert (system["knob"], system["value"]) == ("m", 2)
    assert [one["value"] for one in system["latencies"]] == [2, 1]
    with client.websocket_connect("/") as socket:
        socket.send_json({"latency": 3})
        assert socket.receive_json() == {
            "error": "This server has no latency 3; it has: echo (en-de, m=2, 1)."
        }
        for given in ({"system": "echo"}, {"system": "echo", "latency": 1}):
            socket.send_json(given)
            socket.send_bytes(spoken(10))
            socket.send_json({"end_of_stream": True})
            assert received(socket)[0] == "10"
    with client.websocket_connect("/v1/realtime") as socket:
        assert socket.receive_json()["type"] == "session.created"
        socket.send_json({"type": "session.update", "model": "echo", "latency": 3})
        assert "This server has no system 'echo', latency 3" in str(socket.receive_json())
    assert [sum(map(len, one.batches)) for one in (slow, fast)] == [2, 2]


def test_settings_do_not_change_within_a_stream(serve: Serve) -> None:
    with serve().websocket_connect("/") as socket:
        socket.send_bytes(spoken(10))
        assert socket.receive_json()["new"] == " 10"
        socket.send_json({"sample_rate": 8000})
        assert "A stream has begun" in socket.receive_json()["error"]
        socket.send_bytes(spoken(20))
        assert "A stream has begun" in reason(socket)[1]


def test_settings_may_be_repeated_within_a_stream(serve: Serve) -> None:
    with serve().websocket_connect("/") as socket:
        for loudness in (10, 20):
            socket.send_json({"sample_rate": 16_000, "target_lang": "de"})
            socket.send_bytes(spoken(loudness))
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == "10 20"


def test_a_full_server_refuses_politely(serve: Serve) -> None:
    client = serve(streams=1)
    with client.websocket_connect("/") as first:
        first.send_bytes(spoken(10))
        with client.websocket_connect("/") as second:
            code, why = reason(second)
        assert (code, why) == (1013, "All 1 places of this server are taken; try again later.")
        first.send_json({"end_of_stream": True})
        assert received(first)[0] == "10"
    with client.websocket_connect("/") as third:
        third.send_json({"end_of_stream": True})
        assert received(third)[0] == ""
    assert "simulzoo_live_refused_total 1" in client.get("/metrics").text


def test_a_failed_stream_says_so_and_others_live(serve: Serve) -> None:
    client = serve(batch_size=1)
    with client.websocket_connect("/") as other:
        with client.websocket_connect("/") as failing:
            failing.send_bytes(spoken(99, 1))
            assert reason(failing) == (1011, "The system has failed: RuntimeError: too loud")
        other.send_bytes(spoken(10))
        other.send_json({"end_of_stream": True})
        assert received(other)[0] == "10"


def test_a_client_that_leaves_keeps_its_log(serve: Serve, tmp_path: Path) -> None:
    client = serve()
    with client.websocket_connect("/") as socket:
        socket.send_bytes(spoken(10, 20))
        assert socket.receive_json()["new"] == " 10"
    assert log(tmp_path, 0).startswith("10")
    assert 'ended="left"} 1' in client.get("/metrics").text


def test_a_log_has_the_name_of_the_recording_and_of_its_system(
    serve: Serve, tmp_path: Path
) -> None:
    names = ["/data/talk.wav", "talk", None, 3, ""]
    for name in names:
        with serve().websocket_connect("/") as socket:
            socket.send_json({"metrics_metadata": {"wav_name": name}})
            socket.send_bytes(spoken(10))
            socket.send_json({"end_of_stream": True})
            assert received(socket)[0] == "10"
        log(tmp_path, 0)
        folder = tmp_path / "stream-000000"
        line = json.loads((folder / "instances.log").read_text(encoding="utf-8"))
        assert line["talk"] == ("talk" if name in names[:2] else "stream-000000")
        facts = json.loads((folder / "stream.json").read_text(encoding="utf-8"))
        assert facts == {"system": "echo", "direction": "en-de", "latency": None, "weights": {}}
        shutil.rmtree(folder)


def test_long_and_silent_streams_end_with_a_sentence(serve: Serve) -> None:
    with serve(stream_seconds=1).websocket_connect("/") as socket:
        socket.send_bytes(spoken(*[10] * 21))
        assert reason(socket) == (1008, "A stream has at most 0.000277778 hours on this server.")
    with serve(idle_seconds=1).websocket_connect("/") as socket:
        assert reason(socket) == (1008, "The client was silent for 1 s.")


def test_a_message_without_audio_is_a_sign_of_life(serve: Serve) -> None:
    with serve(idle_seconds=1).websocket_connect("/") as socket:
        socket.send_bytes(spoken(10))
        for _ in range(4):
            time.sleep(0.4)
            socket.send_bytes(b"")
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == "10"


def test_the_page_and_what_it_asks_for(serve: Serve, tmp_path: Path) -> None:
    audio.write(tmp_path / "talk.wav", white_noise(16_000, scale=0.1))
    talk = without_references("a talk", tmp_path / "talk.wav", 1.0, "en")
    client = serve(talks=[talk])
    assert client.get("/health").json() == {"status": "ready"}
    page = client.get("/")
    assert "<title>SimulZoo live</title>" in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    for name in (
        "page.js",
        "panel.js",
        "sources.js",
        "choices.js",
        "words.js",
        "speech.js",
        "recorder.js",
        "style.css",
    ):
        assert client.get(f"/page/{name}").status_code == 200
    described = client.get("/systems").json()
    assert described["talks"] == [{"name": "a talk", "duration": 1.0, "source_language": "en"}]
    assert described["systems"][0]["name"] == "echo"
    assert client.get("/talks/a%20talk").content == (tmp_path / "talk.wav").read_bytes()
    assert client.get("/talks/..%2Fother").status_code == 404


def test_the_audio_of_a_talk_outlives_its_temporary_file(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    audio.write(tmp_path / "talk.wav", white_noise(16_000, scale=0.1))
    client = serve(talks=[without_references("a talk", tmp_path / "talk.wav", 1.0, "en")])
    for _ in range(2):
        assert client.get("/talks/a%20talk").content == (tmp_path / "talk.wav").read_bytes()
        (folder,) = tmp_path.glob("simulzoo-live-*")
        shutil.rmtree(folder)
    (tmp_path / "talk.wav").unlink()
    assert client.get("/talks/a%20talk").status_code == 503
    assert caplog.messages[-1].startswith("The audio of a talk cannot be sent: ")


def test_a_token_is_needed_where_one_is_set(serve: Serve) -> None:
    client = serve(access=Access(token="secret"))
    for path in ("/", "/systems", "/metrics"):
        assert client.get(path).status_code == 403
        assert client.get(f"{path}?token=secre").status_code == 403
        assert client.get(f"{path}?token=secret").status_code == 200
    assert client.get("/health").status_code == 200
    with pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)):
        client.websocket_connect("/").__enter__()
    for given, code in (("Bearer secret", 200), ("Bearer secre", 403), ("Basic secret", 403)):
        assert client.get("/systems", headers={"Authorization": given}).status_code == code
    with client.websocket_connect("/?token=secret") as socket:
        socket.send_json({"end_of_stream": True})
        assert received(socket)[0] == ""


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [("http://localhost", True), ("https://zoo.example", True), ("http://other.example", False)],
)
def test_pages_of_other_sites_open_no_socket(origin: str, *, allowed: bool, serve: Serve) -> None:
    client: TestClient = serve(access=Access(origins=("https://zoo.example",)))
    headers = {"origin": origin}
    if allowed:
        with client.websocket_connect("/", headers=headers) as socket:
            socket.send_json({"end_of_stream": True})
            assert received(socket)[0] == ""
    else:
        with pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)):
            client.websocket_connect("/", headers=headers).__enter__()
