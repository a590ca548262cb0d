"""The capture loop with a sound card of the test, which records in its own thread."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import numpy as np
import pytest
import torch

from zoo.apps.translate.live import Stop
from zoo.apps.translate.microphone import Capture, Receive, SoundDevice
from zoo.base.errors import ZooError


class Card:
    """Records blocks of these sizes, whose samples count up, then stops like a user."""

    def __init__(self, sizes: Sequence[int], stop: Stop, *, rate: int = 16_000) -> None:
        self.rate = rate
        self.open = False
        self._sizes = sizes
        self._stop = stop

    @contextmanager
    def recording(self, receive: Receive) -> Iterator[None]:
        def record() -> None:
            position = 0
            for size in self._sizes:
                block = np.arange(position, position + size, dtype=np.float32)[:, None]
                receive(block, size == 1)
                position += size
            self._stop.requested = True

        self.open = True
        thread = Thread(target=record)
        thread.start()
        yield
        thread.join()
        self.open = False


def captured(sizes: Sequence[int], *, rate: int = 16_000) -> tuple[list[int], list[bool], Capture]:
    stop = Stop()
    card = Card(sizes, stop, rate=rate)
    capture = Capture(card, size=100, stop=stop)
    chunks = list(capture)
    assert not card.open
    assert torch.equal(torch.cat(capture.recorded), torch.cat([one.samples for one in chunks]))
    return [one.samples.numel() for one in chunks], [one.final for one in chunks], capture


def test_blocks_become_chunks_of_one_size_and_a_final_rest() -> None:
    sizes, finals, capture = captured([30, 250, 7])
    assert (sizes, finals) == ([100, 100, 87], [False, False, True])
    assert torch.equal(torch.cat(capture.recorded), torch.arange(287.0))
    assert capture.lost == 0


@pytest.mark.parametrize("blocks", [[], [100], [50, 50]])
def test_a_recording_without_a_rest_ends_with_a_sample_of_silence(blocks: list[int]) -> None:
    sizes, finals, _ = captured(blocks)
    assert (sizes[-1], finals[-1], sum(finals)) == (1, True, 1)


def test_lost_samples_are_counted() -> None:
    assert captured([10, 1, 1])[2].lost == 2


def test_another_rate_is_resampled() -> None:
    sizes, _, _ = captured([4_800] * 20, rate=48_000)
    assert sum(sizes) == pytest.approx(32_000, abs=1_000)


def test_a_machine_without_sounddevice_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(ZooError, match=r"pip install 'simulzoo\[microphone\]'"):
        SoundDevice(True)


class PortAudioError(Exception):
    pass


class Module:
    """What this zoo uses of sounddevice: a machine with one microphone, of 44.1 kHz."""

    PortAudioError = PortAudioError

    def __init__(self) -> None:
        self.opened: dict[str, object] = {}

    def check_input_settings(self, *, device: object, samplerate: int, **given: object) -> None:
        if samplerate != 44_100:
            raise PortAudioError("Invalid sample rate")

    def query_devices(self, device: object, kind: str) -> dict[str, float]:
        if device not in (None, 0):
            raise ValueError(f"No input device matching {device!r}")
        return {"default_samplerate": 44_100.0}

    def InputStream(self, **given: object) -> "Module":
        self.opened = given
        return self


def test_a_microphone_records_at_its_own_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module()
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    received: list[tuple[float, bool]] = []
    card = SoundDevice(True)
    card.recording(lambda block, lost: received.append((float(block[0, 0]), lost)))
    assert (card.rate, module.opened["samplerate"], module.opened["channels"]) == (
        44_100,
        44_100,
        1,
    )

    callback = module.opened["callback"]
    block = np.ones((4, 1), np.float32)
    callback(block, 4, None, type("Status", (), {"input_overflow": True}))  # type: ignore[operator]
    assert received == [(1.0, True)]


def test_an_unknown_microphone_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", Module())
    with pytest.raises(ZooError, match=r"There is no microphone 'USB'.* lists the devices"):
        SoundDevice("USB")
