"""Clients of realtime endpoints, against servers that play scripts."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fixtures.realtime_server import Script, delta, serving, vllm
from tests.fixtures.streams import white_noise
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.talks import Talk, without_references
from zoo.base.types import Instance
from zoo.extras.interop.realtime.endpoint import RealtimeEndpoint, socket_address
from zoo.streaming.queue import TalkQueue
from zoo.streaming.simulate import Stream

SECONDS = 1.0
DONE = {"type": "transcription.done", "text": "eins drei vier"}
WRONG = (
    *("", "a", "a:1", "ftp://a", "http://", "http://a:b", "http://["),
    *("http://u:p@a", "http://a?token=x", "http://a#x", "http://a b"),
)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    audio.write(tmp_path / "talk.wav", white_noise(round(16_000 * SECONDS), scale=0.1))
    return without_references("a talk", tmp_path / "talk.wav", SECONDS, "en")


def endpoint(url: str, **options: Any) -> RealtimeEndpoint:
    return RealtimeEndpoint(
        name="live", source_language="en", target_language="de", url=url, **options
    )


def streamed(talk: Talk, script: Script, **options: Any) -> Instance:
    """The stream of a talk through a server that plays a script."""
    with serving(script) as url:
        (found,) = endpoint(url, **options).stream(TalkQueue([talk]))
    return found


def test_words_have_the_times_of_their_arrival(talk: Talk) -> None:
    script = vllm(
        (0.2, "eins"),
        (0.4, "zwei"),
        ended=[0.4, delta(" drei", deleted=" zwei"), delta(" vi"), 0.2, delta("er"), DONE],
    )
    found = streamed(talk, script, model="m")
    assert (found.text, found.units) == (" eins drei vier", ("eins", "drei", "vier"))
    assert (found.source_length, found.delays[1:]) == (SECONDS, (SECONDS, SECONDS))
    assert 0.2 <= found.delays[0] <= SECONDS
    assert all(at >= delay for at, delay in zip(found.elapsed, found.delays, strict=True))
    assert SECONDS + 0.4 <= found.elapsed[1] < found.elapsed[2] - 0.1
    assert [(event.kind, event.at, event.text) for event in found.events] == [
        ("revision", SECONDS, "zwei")
    ]
    # the computation of the server is not known, so that the row has no RTF
    assert (found.chunks, found.stages, found.batched) == ((), None, False)


def test_vllm_receives_the_model_a_first_commit_and_the_audio(talk: Talk) -> None:
    script = vllm(updated=[])  # vLLM does not acknowledge
    streamed(talk, script, model="m", session={"sample_rate": 16_000})
    update, commit, *pieces, final = script.events
    assert update == {
        "type": "session.update",
        "model": "m",
        "source_language": "en",
        "target_language": "de",
        "sample_rate": 16_000,
    }
    assert commit == {"type": "input_audio_buffer.commit"}
    assert final == {"type": "input_audio_buffer.commit", "final": True}
    assert len(pieces) == 10
    sent = torch.frombuffer(bytearray(script.audio), dtype=torch.int16)
    assert torch.equal(sent / 32768, audio.load(talk.file))
    assert script.path == "/v1/realtime"


def test_openai_s_translations(talk: Talk) -> None:
    script = Script(
        spoken={0.5: [{"type": "session.output_transcript.delta", "delta": "Hal"}]},
        ended=[
            {"type": "session.output_audio.delta", "delta": "AAAA"},
            {"type": "session.output_transcript.delta", "delta": "lo"},
            {"type": "session.closed"},
            (1000, ""),
        ],
        rate=24_000,
    )
    found = streamed(talk, script, model="a b", dialect="openai_translation")
    assert (found.text, found.delays) == ("Hallo", (SECONDS,))
    assert script.path == "/v1/realtime/translations?model=a%20b"
    update, *pieces, end = script.events
    assert update["session"] == {"audio": {"output": {"language": "de"}}}
    assert {event["type"] for event in pieces} == {"session.input_audio_buffer.append"}
    assert end == {"type": "session.close"}
    assert len(script.audio) == 2 * 24_000 * SECONDS


def test_openai_s_transcriptions(talk: Talk) -> None:
    kind = "conversation.item.input_audio_transcription"
    script = Script(
        spoken={0.5: [{"type": f"{kind}.delta", "item_id": "a", "delta": "Hello"}]},
        ended=[
            {"type": "input_audio_buffer.committed", "item_id": "a"},
            {"type": f"{kind}.delta", "item_id": "a", "delta": " word"},
            {"type": f"{kind}.completed", "item_id": "a", "transcript": "Hello world."},
        ],
        rate=24_000,
    )
    more = {"audio": {"input": {"transcription": {"language": "en"}}}}
    options = {"model": "m", "dialect": "openai_transcription", "session": more}
    found = streamed(talk, script, **options)
    assert found.units == ("Hello", "world.")
    assert [event.text for event in found.events] == ["word"]
    assert script.path == "/v1/realtime?intent=transcription"
    update, *_, end = script.events
    assert update["session"] == {
        "type": "transcription",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24_000},
                "transcription": {"model": "m", "language": "en"},
                "turn_detection": None,
            }
        },
    }
    assert end["type"] == "input_audio_buffer.commit"


WORDS = {"type": "error", "error": {"message": "no\n such  model."}}


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (vllm(updated=[WORDS]), "reports an error: no such model (talk 'a talk', after"),
        (vllm(opened=[WORDS]), "reports an error: no such model (talk 'a talk', after 0.0 s)."),
        (vllm(ended=[{"type": "error", "error": "a text"}]), "reports an error: a text (talk"),
        (vllm(opened=[(1013, "full")]), "closes the connection: 1013 full (talk 'a talk', after"),
        (vllm(spoken={0.3: [(1011, "failed")]}), "closes the connection: 1011 failed (talk"),
        (vllm(spoken={0.3: [{"type": "transcription.done"}]}), "before the end of its audio (talk"),
        (vllm(ended=[]), "sends nothing for longer than system.patience_seconds (talk"),
        (vllm(opened=[]), "sends nothing for longer than system.patience_seconds (talk"),
        (vllm(spoken={0.3: ["["]}), "sends what is no event: its message, is not JSON"),
        (vllm(spoken={0.3: ["{}"]}), "sends an event without a type (talk"),
        (vllm(spoken={0.3: [{**delta(""), "delta": 3}]}), "with a delta that is no text (talk"),
    ],
)
def test_a_failure_names_the_talk_and_the_reason(script: Script, sentence: str, talk: Talk) -> None:
    with pytest.raises(ZooError) as failure:
        streamed(talk, script, patience_seconds=0.5)
    assert sentence in str(failure.value)
    assert "\n" not in str(failure.value)


def test_talks_are_streamed_at_the_same_time_and_counted(talk: Talk) -> None:
    seconds: list[float] = []

    def on_chunk(stream: Stream) -> None:
        seconds.append(stream.newest)

    with serving(vllm((0.5, "eins"))) as url:
        queue = TalkQueue([talk] * 3, batch_size=2)
        found = list(endpoint(url, piece_seconds=0.3).stream(queue, on_chunk))
    assert sorted(one.index for one in found) == [0, 1, 2]
    assert [(one.units, one.batched) for one in found] == [(("eins",), True)] * 3
    assert sum(seconds) == pytest.approx(3 * SECONDS)
    assert len(seconds) == 3 * 4


def test_a_talk_that_is_complete_is_kept_when_another_one_fails(talk: Talk) -> None:
    with serving(vllm((0.5, "eins")), vllm(opened=[(1011, "failed")])) as url:
        streams = endpoint(url).stream(TalkQueue([talk] * 2))
        assert next(streams).units == ("eins",)
        with pytest.raises(ZooError, match="1011 failed"):
            next(streams)


def test_the_key_is_sent_and_not_shown(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    script = vllm(updated=[{"type": "error", "error": {"message": "wrong key sk-a-secret"}}])
    monkeypatch.setenv("SERVER_KEY", "sk-a-secret")
    with pytest.raises(ZooError, match=r"wrong key \*\*\*"):
        streamed(talk, script, api_key_variable="SERVER_KEY")
    assert script.headers["Authorization"] == "Bearer sk-a-secret"
    monkeypatch.setenv("SERVER_KEY", "sk-another")
    with serving(vllm(), key="sk-a-secret") as url:
        system = endpoint(url, api_key_variable="SERVER_KEY")
        with pytest.raises(ZooError, match=r"refuses the connection \(HTTP 401\) \(silence"):
            system.load()
        assert "sk-another" not in f"{system!r}{json.dumps(vars(system), default=repr)}"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8741", "ws://127.0.0.1:8741/v1/realtime"),
        ("https://a.example/", "wss://a.example/v1/realtime"),
        ("ws://[::1]:1/x/", "ws://[::1]:1/x"),
        ("wss://a.example/v1/realtime", "wss://a.example/v1/realtime"),
        *((url, None) for url in WRONG),
    ],
)
def test_addresses(url: str, address: str | None) -> None:
    if address is not None:
        assert socket_address(url, "/v1/realtime") == address
        return
    with pytest.raises(ZooError, match=r"^system\.url must be an address") as refusal:
        socket_address(url, "/v1/realtime")
    assert "token" not in str(refusal.value)
