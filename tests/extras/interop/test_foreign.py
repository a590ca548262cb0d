"""A system that another tool implements passes through an evaluation; needs no other tool."""

from pathlib import Path

import pytest
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import SAMPLE_RATE, Action, SpeechChunk
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.settings import Settings
from zoo.extras.interop.foreign import ForeignStream, ForeignSystem


class Counter(ForeignSystem):
    """Writes how many seconds its part has received; the part serves one stream at a time."""

    def __init__(self, package: str = "json") -> None:
        super().__init__(
            package=package,
            install="pip install tool",
            name="counter",
            source_language="en",
            target_language="de",
            chunk_seconds=1.0,
        )
        self.created = 0

    @property
    def emits_speech(self) -> bool:
        self.check_package()
        return False

    def create(self) -> list[SpeechChunk]:
        self.created += 1
        return []

    def advance(self, stream: ForeignStream, chunk: SpeechChunk) -> Action:
        stream.part.append(chunk)
        text = f" {stream.received / SAMPLE_RATE:g}"
        if chunk.final:
            stream.part.clear()
        return Action(text)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_it_has_a_row_as_other_systems(tmp_path: Path, batch_size: int) -> None:
    talks = []
    for name, seconds in (("a", 2.5), ("b", 1.5), ("c", 1.0)):
        audio.write(tmp_path / f"{name}.wav", torch.zeros(round(seconds * SAMPLE_RATE)))
        segment = Segment(0.0, seconds, "one", targets={"de": Target("1 2")})
        talks.append(Talk(name, tmp_path / f"{name}.wav", seconds, "en", (segment,)))
    settings = Settings(upper_bound=False, batch_size=batch_size)
    evaluator = Evaluator(corpus="c", talks=talks, settings=settings, folder=tmp_path / "run")

    system = Counter()
    system.load()
    system.open("")  # a stream that never ends, as before an evaluation
    [row] = evaluator.run(system)
    assert (row.system, row.knob) == ("counter", None)
    found = [stream.instance for stream in evaluator.streams]
    assert [instance.units for instance in found] == [("1", "2", "2.5"), ("1", "1.5"), ("1",)]
    assert found[0].delays == (1.0, 2.0, 2.5)
    assert system.created == batch_size, "parts serve one stream after the other"


def test_an_absent_package_is_named() -> None:
    with pytest.raises(ZooError, match=r"needs the package no_tool.* run: pip install tool"):
        _ = Counter("no_tool").emits_speech
