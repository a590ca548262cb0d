"""Each write through a real, tiny SeamlessM4T text to speech of random weights."""

from pathlib import Path

import pytest
import torch

from tests.contract.scripted import Scripted
from tests.fixtures.tiny_checkpoints import KINDS
from tests.synthesizers.writes import texts
from zoo.errors import ZooError
from zoo.languages import language
from zoo.synthesizers.seamless_tts import SeamlessTTS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made: Path = tmp_path_factory.mktemp("checkpoints") / "speech"
    KINDS["seamless_m4t_speech"](made, seed=5)
    return str(made)


@pytest.fixture(scope="module")
def speaker(folder: str) -> SeamlessTTS:
    made = SeamlessTTS(name=folder, max_units=20, dtype="float64")
    made.check(language("de"))
    made.load(Scripted())
    t2u = made.network.speaker.t2u
    t2u.lm_head.weight.data[t2u.config.t2u_eos_token_id] = 0  # random weights end the speech there
    return made


def test_each_write_is_spoken_as_it_is_alone_and_punctuation_is_silent(
    speaker: SeamlessTTS,
) -> None:
    both = speaker.synthesize(texts("a b", ".", " c"))
    assert [len(wave) > 0 for wave in both] == [True, False, True]
    for wave, text in zip(both, ("a b", ".", "c"), strict=True):
        torch.testing.assert_close(wave, speaker.synthesize(texts(text))[0])


def test_its_weights_are_the_system_s_but_not_the_backbone_s(speaker: SeamlessTTS) -> None:
    assert {name.split(".")[1] for name, _ in speaker.named_parameters()} >= {
        "reader",
        "decoder",
        "speaker",
    }


def test_a_language_it_does_not_speak_is_refused_before_weights(folder: str) -> None:
    made = SeamlessTTS(name=folder)
    made.check(language("ja"))
    with pytest.raises(ZooError, match=r"does not speak Japanese; choose one of"):
        made.load(Scripted())
    assert not list(made.parameters())
