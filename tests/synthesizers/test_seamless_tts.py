"""Synthesis of each request by a real, tiny SeamlessM4T of random weights."""

import pytest
import torch

from tests.contract.scripted import Scripted
from tests.synthesizers.speech_requests import requests_for
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.synthesizers.seamless_tts import SeamlessTTS


@pytest.fixture(scope="module")
def speaker(folder: str) -> SeamlessTTS:
    synthesizer = SeamlessTTS(name=folder, max_units=20, dtype="float64")
    synthesizer.check(language("de"))
    synthesizer.load(Scripted())
    t2u = synthesizer.network.speaker.t2u
    t2u.lm_head.weight.data[t2u.config.t2u_eos_token_id] = 0  # random weights end the speech there
    return synthesizer


def test_each_write_is_spoken_as_it_is_alone_and_punctuation_is_silent(
    speaker: SeamlessTTS,
) -> None:
    both = speaker.synthesize(requests_for("a b", ".", " c"))
    assert [len(wave) > 0 for wave in both] == [True, False, True]
    for wave, text in zip(both, ("a b", ".", "c"), strict=True):
        torch.testing.assert_close(wave, speaker.synthesize(requests_for(text))[0])


def test_its_weights_are_the_system_s_but_not_the_backbone_s(speaker: SeamlessTTS) -> None:
    assert {name.split(".")[1] for name, _ in speaker.named_parameters()} >= {
        "reader",
        "decoder",
        "speaker",
    }


def test_a_language_it_does_not_speak_is_refused_before_weights(folder: str) -> None:
    synthesizer = SeamlessTTS(name=folder)
    synthesizer.check(language("ja"))
    with pytest.raises(ZooError, match=r"does not speak Japanese; choose one of"):
        synthesizer.load(Scripted())
    assert not list(synthesizer.parameters())
