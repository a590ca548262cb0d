"""The messages of both protocols, without a network."""

import base64
import json
from typing import Any

import pytest
import torch

from zoo.errors import ZooError
from zoo.live.audio import AudioInput
from zoo.live.engine import Progress
from zoo.live.realtime import RealtimeWire
from zoo.live.simulstream import SimulstreamWire
from zoo.live.wire import Audio, Configure, End
from zoo.streaming.translation import EmittedText

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


@pytest.mark.parametrize("wire", WIRES, ids=["simulstream", "realtime"])
@pytest.mark.parametrize("message", ["", "no", "[]", "1", '{"a": ', "[" * 100_000, '"\ud800"'])
def test_a_text_that_is_no_object_is_refused(wire: Any, message: str) -> None:
    with pytest.raises(ZooError, match="must be a JSON object"):
        list(wire.orders(message))


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        ({"type": "response.create"}, "Unknown event 'response.create'; choose one of: session"),
        ({}, "Unknown event None"),
        ({"type": "input_audio_buffer.append"}, "needs audio"),
        ({"type": "input_audio_buffer.append", "audio": "?"}, "is not base64"),
        ({"type": "session.update", "session": 3}, "must be an object"),
    ],
)
def test_other_events_are_refused(event: Any, sentence: str) -> None:
    with pytest.raises(ZooError, match=sentence):
        list(RealtimeWire("echo").orders(json.dumps(event)))


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_audio_in_pieces_is_the_audio_as_a_whole(rate: int) -> None:
    wave = (10_000 * torch.sin(torch.arange(rate) / 20)).to(torch.int16).numpy().tobytes()
    whole = AudioInput(rate).receive(wave, final=True)
    assert whole.numel() == pytest.approx(16_000, abs=20)
    pieces = AudioInput(rate)
    step = 2 * (rate // 7)
    parts = [pieces.receive(wave[begin : begin + step]) for begin in range(0, len(wave), step)]
    joined = torch.cat([*parts, pieces.receive(b"", final=True)])
    torch.testing.assert_close(joined, whole, atol=1e-3, rtol=0)


@pytest.mark.parametrize("rate", [0, -1, 3_999, 10**9, True, "16000", None, float("nan")])
def test_rates_are_numbers_in_a_range(rate: object) -> None:
    with pytest.raises(ZooError, match="sample_rate must be a number from 4000 to 384000 Hz"):
        AudioInput(rate)


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(ZooError, match="a message has 3 bytes"):
        AudioInput().receive(b"abc")
