"""XTTS-v2: checks before synthesis, and the arguments for its package."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.contract.scripted import Scripted
from tests.synthesizers.speech_requests import requests_for
from zoo.errors import ZooError
from zoo.languages import language
from zoo.synthesizers import xtts
from zoo.synthesizers.xtts import FILES, XTTS


class Sampling:
    """In place of coqui-tts: noise of 24 kHz, as long as the text."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def inference(self, text: str, code: str, **options: Any) -> dict[str, Any]:
        self.asked.append((text, code))
        assert options == {"temperature": 0.75}
        return {"wav": torch.rand(2400 * len(text)).numpy().astype(np.float64)}


def test_a_language_it_does_not_speak_is_refused() -> None:
    with pytest.raises(ZooError, match=r"does not support Romanian; .*synthesizer=espeak"):
        XTTS().check(language("ro"))


def test_missing_parts_are_an_error_of_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        xtts, "find_spec", lambda package: None if package == "torchaudio" else package
    )
    with pytest.raises(ZooError, match=r"does not find torchaudio\. See docs/simulu.md"):
        XTTS().check(language("de"))
    monkeypatch.setattr(xtts, "find_spec", lambda package: package)
    for name in (None, str(tmp_path)):
        with pytest.raises(ZooError, match=r"synthesizer.name must be a folder with .*CPML"):
            XTTS(name=name).check(language("de"))
    for file in FILES:
        (tmp_path / file).touch()
    with pytest.raises(ZooError, match=r"synthesizer.reference must be a recording"):
        XTTS(name=str(tmp_path)).check(language("de"))
    (tmp_path / "voice.wav").touch()
    XTTS(name=str(tmp_path), reference=str(tmp_path / "voice.wav")).check(language("de"))


def test_the_error_for_a_broken_package_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "TTS", None)
    with pytest.raises(ZooError, match=r"cannot be imported \(.*TTS.*\)\. Other synthesizers are"):
        XTTS(name="folder", reference="voice.wav").load(Scripted())


def test_texts_are_sampled_from_one_seed_and_brought_to_16_khz() -> None:
    speaker = XTTS()
    speaker.network, speaker.rate = Sampling(), 24_000
    before = torch.get_rng_state()
    first, silent, again, chinese = speaker.synthesize(
        requests_for(" Tag", ".", "Tag")
    ) + speaker.synthesize(requests_for("你好", target="zh"))
    assert torch.equal(first, again)
    assert (len(first), len(silent), len(chinese)) == (4800, 0, 3200)
    assert first.dtype == torch.float32
    assert speaker.network.asked == [("Tag", "de"), ("Tag", "de"), ("你好", "zh-cn")]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_temperature_of_nothing_is_refused() -> None:
    with pytest.raises(ZooError, match="temperature above 0"):
        XTTS(temperature=0)
