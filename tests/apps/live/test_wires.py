"""The messages of both protocols, without a network."""

import base64
import json
from typing import Any

import pytest
import torch

from zoo.apps.live.engine import Progress
from zoo.apps.live.realtime import RealtimeWire
from zoo.apps.live.simulstream import SimulstreamWire
from zoo.apps.live.wire import Audio, Configure, End, RefusedSettings
from zoo.base.errors import ZooError
from zoo.streaming.translation import EmittedText

OPENAI_SESSION = {
    "type": "realtime",
    "id": "sess_1",
    "output_modalities": ["text"],
    "instructions": "",
    "tools": [],
    "tool_choice": "auto",
    "max_output_tokens": "inf",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "turn_detection": None,
            "noise_reduction": None,
            "transcription": {"language": "en"},
        },
        "output": {"language": "de"},
    },
}
WIRES = [SimulstreamWire(), RealtimeWire("echo")]


def output(text: str, deleted: str = "", *, final: bool = False) -> Progress:
    emitted = EmittedText(text, 1.92, 2.5, deleted, torch.tensor([0.0, 0.5, -2.0]))
    return Progress(emitted, None, 0.58, final)


@pytest.mark.parametrize(
    ("message", "order"),
    [
        (b"\x00\x01", Audio(b"\x00\x01")),
        ({"end_of_stream": True}, End()),
        ({"sample_rate": 48000}, Configure(sample_rate=48000)),
        ({"encoding": "pcm_f32le"}, Configure(encoding="pcm_f32le")),
        (
            {"target_lang": "de", "source_lang": "en", "metrics_metadata": {"wav_name": "a.wav"}},
            Configure(source="en", target="de", recording="a"),
        ),
        ({"system": "echo", "speech": True}, Configure(system="echo", with_speech=True)),
        ({}, Configure()),
    ],
)
def test_simulstream_s_messages_are_read(message: Any, order: object) -> None:
    text = message if isinstance(message, bytes) else json.dumps(message)
    assert list(SimulstreamWire().orders(text)) == [order]


def test_simulstream_s_clients_find_new_and_deleted_text() -> None:
    (message,) = SimulstreamWire().progress(output(" Katze", "Kat"), with_speech=False)
    assert (message["new"], message["deleted"]) == (" Katze", "Kat")
    assert (message["delay"], message["elapsed"], message["lateness"]) == (1.92, 2.5, 0.58)
    silent = Progress(None, "the cat", 0.1, final=True)
    assert list(SimulstreamWire().progress(silent, with_speech=False)) == [
        {"new": "", "deleted": "", "transcript": "the cat"},
        {"end_of_processing": True},
    ]


def test_speech_is_for_those_who_ask() -> None:
    (message,) = SimulstreamWire().progress(output(" Katze"), with_speech=True)
    samples = torch.frombuffer(bytearray(base64.b64decode(message["speech"])), dtype=torch.int16)
    assert samples.tolist() == [0, 16384, -32768]


@pytest.mark.parametrize(
    ("event", "orders"),
    [
        ({"type": "session.update", "model": "echo"}, [Configure(system="echo")]),
        (
            {"type": "session.update", "session": {"model": "echo", "target_language": "de"}},
            [Configure(system="echo", target="de")],
        ),
        (
            {"type": "session.update", "session": OPENAI_SESSION},
            [Configure(24_000, "pcm_s16le", source="en", target="de")],
        ),
        (
            {"type": "session.update", "session": {"input_audio_format": "g711_alaw"}},
            [Configure(8_000, "g711_alaw")],
        ),
        (
            {"type": "session.update", "session": {"audio": {"input": {"format": "audio/pcmu"}}}},
            [Configure(8_000, "g711_ulaw")],
        ),
        (
            {"type": "session.update", "input_audio_format": "pcm16", "sample_rate": 16_000},
            [Configure(16_000, "pcm_s16le")],
        ),
        ({"type": "input_audio_buffer.append", "audio": "AAE="}, [Audio(b"\x00\x01")]),
        ({"type": "input_audio_buffer.commit"}, []),
        ({"type": "input_audio_buffer.commit", "final": True}, [End()]),
    ],
)
def test_realtime_events_are_read(event: Any, orders: list[object]) -> None:
    assert list(RealtimeWire("echo").orders(json.dumps(event))) == orders


def test_realtime_deltas_add_up_to_the_text() -> None:
    wire = RealtimeWire("echo")
    sent = [
        message
        for progress in (output(" Die Kat"), output(" Katze", " Kat"), output(".", final=True))
        for message in wire.progress(progress, with_speech=False)
    ]
    assert [message["type"] for message in sent] == 3 * ["transcription.delta"] + [
        "transcription.done"
    ]
    assert sent[1]["deleted"] == " Kat"
    assert sent[-1]["text"] == "Die Katze."
    (deletion,) = wire.progress(output("", "ze."), with_speech=False)
    assert (deletion["delta"], deletion["deleted"]) == ("", "ze.")


RATE = {"audio": {"input": {"format": {"rate": 24_000}}}}


def update(session: Any) -> Any:
    """An event with settings."""
    return {"type": "session.update", "session": session}


@pytest.mark.parametrize("wire", WIRES, ids=["simulstream", "realtime"])
@pytest.mark.parametrize("message", ["", "no", "[]", "1", '{"a": ', "[" * 100_000, '"\ud800"'])
def test_a_text_that_is_no_object_is_refused(wire: Any, message: str) -> None:
    with pytest.raises(ZooError, match="must be a JSON object"):
        list(wire.orders(message))


@pytest.mark.parametrize("wire", WIRES, ids=["simulstream", "realtime"])
@pytest.mark.parametrize("values", [[[]] * 10_000, [{}] * 10_000, [0] * 10_000])
def test_a_text_of_many_values_is_refused(wire: Any, values: list[object]) -> None:
    with pytest.raises(RefusedSettings, match="of at most 10000 values"):
        list(wire.orders(json.dumps({"type": "session.update", "latency": values})))


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        ({"type": "response.create"}, "Unknown event 'response.create'; choose one of: session"),
        ({}, "Unknown event None"),
        ({"type": "input_audio_buffer.append"}, "needs audio"),
        ({"type": "input_audio_buffer.append", "audio": "?"}, "is not base64"),
        ({"type": "session.update", "session": 3}, "must be an object"),
        (update({"turn_detection": {"type": "server_vad"}}), "asks for turn_detection.type, which"),
        (update({"voice": "ash", "speed": 1.5}), "asks for voice, speed, which this server does"),
        (update({"target_lang": "de"}), "asks for target_lang, .* it has: model, latency, source_"),
        (update({"modalities": ["text", "audio"]}), "asks for modalities, which"),
        (update({"input_audio_format": "opus"}), "Unknown input_audio_format 'opus'; .* pcm16"),
        (update({"audio": {"input": {"format": {"type": 3}}}}), "Unknown audio.input.format.type"),
        (update({"x" * 101: {}}), "A field of a session has at most 100 letters"),
        (update({"sample_rate": 16_000, **RATE}), "asks for sample_rate 16000, and for 24000 by"),
    ],
)
def test_other_events_are_refused(event: Any, sentence: str) -> None:
    with pytest.raises(ZooError, match=sentence):
        list(RealtimeWire("echo").orders(json.dumps(event)))
