"""Scores of streams whose talk is known, while they run and at their end."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.apps.live.conftest import CHUNK, Serve
from tests.apps.live.test_server import spoken
from tests.fixtures.streams import white_noise
from zoo.apps.live import scoring
from zoo.base.audio import files as audio
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import SAMPLE_RATE
from zoo.formats.logs import read_log
from zoo.formats.references import read_references
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment

CHUNKS = 40
SECONDS = CHUNKS * CHUNK / SAMPLE_RATE
NAMES = ("StreamLAAL", "StreamLAAL_CA")


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Four segments of half a second, each with five of the words that ``Echo`` writes."""
    path = tmp_path / "talk.wav"
    audio.write(path, white_noise(CHUNKS * CHUNK, scale=0.1))
    segments = [
        Segment(start, 0.5, "five words", targets={"de": Target(" ".join([f"{place}"] * 5))})
        for place, start in enumerate([0.0, 0.5, 1.0, 1.5])
    ]
    return Talk("a talk", path, SECONDS, "en", segments)


def messages_of(client: Any, name: str, chunks: int) -> list[Any]:
    """What a client receives that names a talk and sends chunks of its words."""
    with client.websocket_connect("/") as socket:
        socket.send_json({"talk": name})
        for place in range(chunks):
            socket.send_bytes(spoken(place // 10))
        socket.send_json({"end_of_stream": True})
        messages = []
        while "end_of_processing" not in (messages or [{}])[-1]:
            messages.append(socket.receive_json())
    return messages


def stored(folder: Path) -> Path:
    """The folder of the first stream, once its log is written."""
    path = folder / "stream-000000"
    deadline = time.monotonic() + 30
    while not (path / "instances.log").is_file():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path


@pytest.mark.parametrize("chunks", [CHUNKS, 25])
def test_the_last_scores_are_those_of_the_log(
    chunks: int, talk: Talk, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "EVERY", 0.0)
    messages = messages_of(serve(talks=[talk]), "a talk", chunks)
    *running, final = [message["scores"] for message in messages if "scores" in message]
    assert messages[-2]["scores"] == final
    assert final["segments"] == len([one for one in talk.segments if one.offset < chunks / 20])
    assert all(scores["segments"] <= final["segments"] for scores in running)

    folder = stored(tmp_path)
    (instance,) = read_log(folder / "instances.log", language=language("de"))
    (segments,) = read_references(
        folder / "segments.yaml", folder / "references.txt", target="de"
    ).values()
    references = [ReferenceSegment.of(one, target="de", talk="") for one in segments]
    assert instance.talk == "a talk"
    assert instance.reference == " ".join(one.text for one in references)
    scores = score_talks([instance], [references], language=language("de")).scores
    assert [final[name] for name in NAMES] == pytest.approx([scores[name].value for name in NAMES])


def test_a_stream_is_scored_only_now_and_then(talk: Talk, serve: Serve) -> None:
    messages = messages_of(serve(talks=[talk]), "a talk", CHUNKS)
    assert len([message for message in messages if "scores" in message]) <= 2


def test_other_audio_has_scores_and_a_talk_without_references_has_none(
    talk: Talk, serve: Serve, tmp_path: Path
) -> None:
    other = Talk("silent", talk.audio, talk.duration, "en", [Segment(0.0, SECONDS, "words")])
    client = serve(talks=[talk, other])
    with client.websocket_connect("/") as socket:
        socket.send_json({"talk": "silent"})
        socket.send_bytes(spoken(10))
        socket.send_json({"end_of_stream": True})
        assert "scores" not in socket.receive_json()
        assert "end_of_processing" in socket.receive_json()
        socket.send_json({"talk": "a talk"})
        socket.send_bytes(spoken(77))
        socket.send_json({"end_of_stream": True})
        assert socket.receive_json()["new"] == " 77"
        assert socket.receive_json()["scores"]["segments"] == 1
        assert "end_of_processing" in socket.receive_json()
    assert json.loads((stored(tmp_path) / "instances.log").read_text())["talk"] == "stream-000000"


def test_a_stream_ends_without_scores_if_they_fail(
    talk: Talk, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring.sys, "executable", "/bin/false")
    messages = messages_of(serve(talks=[talk]), "a talk", 2)
    assert [next(iter(message)) for message in messages] == ["new", "new", "end_of_processing"]
