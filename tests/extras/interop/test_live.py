"""A stream that another tool drives receives the chunks of an evaluation."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from zoo.base.errors import ZooError
from zoo.base.types import Action, SpeechChunk
from zoo.extras.interop.live import LiveStream, check_language, check_rate, loaded_system


class Recorder:
    """A system that writes the size of each chunk."""

    chunk_samples = 4

    def __init__(self) -> None:
        self.chunks: list[SpeechChunk] = []

    def open(self, talk: str) -> SimpleNamespace:
        return SimpleNamespace(source_ended=False)

    def step(self, sessions: Sequence[Any], chunks: Sequence[SpeechChunk]) -> list[Action]:
        self.chunks += chunks
        return [Action(text=str(chunk.samples.numel())) for chunk in chunks]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([4, 4, 3], [(4, False), (4, False), (3, True)]),
        ([11], [(4, False), (4, False), (3, True)]),
        ([1] * 11, [(4, False), (4, False), (3, True)]),
        ([5, 3], [(4, False), (4, True)]),
        ([0], [(0, True)]),
    ],
)
def test_a_known_end_marks_the_last_chunk(
    pieces: list[int], expected: list[tuple[int, bool]]
) -> None:
    system = Recorder()
    stream = LiveStream(system)  # type: ignore[arg-type]
    samples = torch.arange(float(sum(pieces)))
    parts = samples.split(pieces)
    texts = [stream.receive(part, final=part is parts[-1]).text for part in parts]
    assert [(chunk.samples.numel(), chunk.final) for chunk in system.chunks] == expected
    assert torch.equal(torch.cat([chunk.samples for chunk in system.chunks]), samples)
    assert "".join(texts) == "".join(str(size) for size, _ in expected)


def test_an_end_without_audio_ends_the_stream_with_what_waits() -> None:
    system = Recorder()
    stream = LiveStream(system)  # type: ignore[arg-type]
    assert stream.receive(torch.zeros(9)).text == "44"
    assert stream.receive(torch.zeros(0)).text == ""
    assert stream.receive(torch.zeros(0), final=True).text == "1"
    assert system.chunks[-1].final


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(ZooError, match="write key=value"):
        loaded_system("streamatt", ["policy.frames"])
    with pytest.raises(ZooError, match="at 16000 Hz, not at 44100 Hz"):
        check_rate(44100)
    with pytest.raises(ZooError, match="target language of the system is 'de', not 'it'"):
        check_language("target", "it", "de")
    check_language("target", None, "de")
