"""A loaded system translates files, talks, arrays and live audio in one call."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import zoo
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE
from zoo.data.minitalks import corpus as minitalks
from zoo.systems.base import StreamingSystem

SECONDS = 6.0


@pytest.fixture(scope="module")
def samples() -> torch.Tensor:
    [talk] = minitalks.build("tst", talks=1)
    return audio.load(talk.file, duration=SECONDS)


@pytest.fixture(scope="module")
def system() -> StreamingSystem:
    return zoo.load("infinisst_minitalks_en-de")


def test_a_file_an_array_and_live_audio_have_the_same_words(
    system: StreamingSystem, samples: torch.Tensor, tmp_path: Path
) -> None:
    audio.write(tmp_path / "talk.wav", samples)
    of_file = system.translate(tmp_path / "talk.wav")
    assert (of_file.talk, of_file.duration) == ("talk", SECONDS)
    assert of_file.text.startswith("Julia hat das Geld ausgegeben.")
    assert str(of_file) == of_file.text
    assert of_file.words[0].text == "Julia"
    assert all(word.elapsed > word.delay for word in of_file.words)

    written = audio.load(tmp_path / "talk.wav")
    stereo = np.stack([written.numpy()] * 2, axis=1)
    assert system.translate(stereo, sample_rate=SAMPLE_RATE).text == of_file.text
    stream = system.translate_stream(written.split(5000), sample_rate=SAMPLE_RATE)
    outputs = list(stream)
    assert len(outputs) > 2
    assert "".join(output.text for output in outputs) == stream.translation.text == of_file.text
    assert [one.delay for one in stream.translation.words] == [one.delay for one in of_file.words]


def test_output_comes_before_further_audio_is_taken(
    system: StreamingSystem, samples: torch.Tensor
) -> None:
    taken = []

    def microphone() -> object:
        for piece in samples.split(SAMPLE_RATE):
            taken.append(piece)
            yield piece

    next(system.translate_stream(microphone(), sample_rate=SAMPLE_RATE))  # type: ignore[arg-type]
    assert len(taken) < SECONDS


def test_a_repr_is_one_line(system: StreamingSystem, samples: torch.Tensor) -> None:
    parts = "backbone=InfiniSST, policy=TurnTaking, history=KeepAll, m=2"
    assert repr(system) == f"StreamingSystem('infinisst', en-de, {parts})"
    found = system.translate(samples, sample_rate=SAMPLE_RATE)
    assert repr(found).startswith("Translation('audio', 6.0 s, ")
    [talk] = minitalks.build("tst", talks=1)
    assert repr(talk).startswith("Talk('tst-000', en, 79.4 s, 22 segments, ")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda system: system.translate("nope.wav"), "There is no audio file nope.wav"),
        (lambda system: system.translate("/"), "is a folder"),
        (lambda system: system.translate(np.zeros(9)), "An array needs sample_rate"),
        (lambda system: system.translate(np.zeros(0), sample_rate=16_000), "has no samples"),
        (lambda system: system.translate("a.wav", sample_rate=16_000), "its own sample rate"),
        (
            lambda system: system.translate(np.zeros((2, 900)), sample_rate=16_000),
            r"must be \(samples,\) or \(samples, channels\)",
        ),
        (
            lambda system: system.translate(np.zeros(9, np.uint8), sample_rate=16_000),
            "of the type uint8",
        ),
        (lambda system: system.translate_stream([], sample_rate=0), "not 0"),
    ],
)
def test_mistakes_are_one_sentence(
    system: StreamingSystem, call: Callable[[StreamingSystem], object], words: str
) -> None:
    with pytest.raises(ZooError, match=words):
        call(system)
