"""Training examples in the layout of StreamUni's released code."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.readers.forms import PAIR
from zoo.backbones.architectures.chain_of_thought.prompt import Template
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.data.chain_of_thought import SpeechChainOfThoughtConfig
from zoo.data.readers.streamuni import INSTRUCTION, StreamUni
from zoo.extras.chat_server.prompt import Template as ChatTemplate

EXAMPLE = {
    "audio": "audio_1.wav",
    "asr": "One two",
    "translation": "Eins zwei drei.",
    "instruction": INSTRUCTION.replace("{target}", "German"),
    "duration": 2.0,
}
OTHER = {
    **EXAMPLE,
    "translation": "Uno dos tres.",
    "instruction": INSTRUCTION.replace("{target}", "Spanish"),
}


def corpus(folder: Path, *examples: dict, **options: str) -> StreamUni:
    audio.write(folder / "audio_1.wav", torch.rand(2 * 16_000))
    (folder / "train.json").write_text(json.dumps(examples))
    return StreamUni(root=str(folder / "train.json"), **{**PAIR, **options})


def test_an_example_is_trained_on_as_it_is(tmp_path: Path) -> None:
    [talk] = corpus(tmp_path, EXAMPLE).talks("train")
    whole = SpeechChainOfThoughtConfig(mixture={"non_streaming": 1.0})
    sampler = whole.sampler([talk], target=language("de"), chunk_seconds=0.64)
    random = np.random.default_rng(0)
    [example] = sampler.examples(0, sampler.plan(0, random).positions, random)
    assert (example.transcript, example.translation) == ("One two", "Eins zwei drei.")
    assert torch.equal(example.samples()[: 2 * 16_000], audio.load(tmp_path / "audio_1.wav"))
    with pytest.raises(ZooError, match="lacks word times, which streaming chains of thought need"):
        SpeechChainOfThoughtConfig().sampler([talk], target=language("de"), chunk_seconds=0.64)


def test_one_file_has_several_target_languages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The recording is the same in both examples, which have one name."""
    with caplog.at_level(logging.WARNING):
        [talk] = corpus(tmp_path, EXAMPLE, OTHER, target_language="es").talks("train")
    assert talk.segments[0].targets["es"].text == "Uno dos tres."
    assert "1 examples of other target languages are left out" in caplog.text
    with pytest.raises(ZooError, match="no example whose instruction names French"):
        corpus(tmp_path, EXAMPLE, OTHER, target_language="fr").talks("train")


def test_another_instruction_is_accepted_by_name(tmp_path: Path) -> None:
    example = {**EXAMPLE, "instruction": "Into German, please."}
    own = corpus(tmp_path, example, instruction="Into {target}, please.")
    [talk] = own.talks("train")
    assert talk.segments[0].source == "One two"


def test_the_instruction_is_that_of_the_prompts() -> None:
    assert Template().instruction == INSTRUCTION
    assert ChatTemplate().instruction == INSTRUCTION
