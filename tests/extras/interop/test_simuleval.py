"""SimulEval drives our agents; runs in an environment with SimulEval (docs/interop.md)."""

import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest

from tests.extras.interop.conftest import CHUNK_MS, OVERRIDES, SYSTEM, Spoken
from zoo.base.languages import language
from zoo.base.types import Instance, Seconds
from zoo.formats.logs import read_log
from zoo.formats.text import MS, read_records

pytest.importorskip("simuleval", reason="SimulEval is not installed")


def simuleval(*arguments: str) -> str:
    """Run SimulEval and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "simuleval.cli", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def drive(agent: str, spoken: Spoken, output: Path, segment_ms: int, *more: str) -> str:
    """Run an agent of the zoo on all talks."""
    return simuleval(
        *("--agent-class", f"zoo.extras.interop.simuleval.{agent}"),
        *("--source", str(spoken.sources), "--target", str(spoken.references)),
        *("--source-segment-size", str(segment_ms), "--output", str(output)),
        *("--zoo", SYSTEM, "--zoo-overrides", *OVERRIDES, *more),
    )


def ends(instance: Instance) -> dict[int, Seconds]:
    """Delay of each unit by its end, counted in letters."""
    return dict(zip(accumulate(map(len, instance.units)), instance.delays, strict=True))


@pytest.mark.parametrize("segment_ms", [CHUNK_MS, CHUNK_MS // 4])
def test_the_words_and_delays_are_those_of_an_evaluation(
    spoken: Spoken, translated: list[Instance], tmp_path: Path, segment_ms: int
) -> None:
    drive("SpeechToText", spoken, tmp_path, segment_ms)
    theirs = read_log(tmp_path / "instances.log", language=language("de"))
    for our, their in zip(translated, theirs, strict=True):
        assert our.units
        assert (our.talk, our.source_length) == (their.talk, pytest.approx(their.source_length))
        assert "".join(our.units) == "".join(their.units)
        # SimulEval counts a word that a later step continues as two words.
        assert ends(our).items() <= ends(their).items()


def test_speech_is_written_with_its_delays(spoken: Spoken, tmp_path: Path) -> None:
    drive("SpeechToSpeech", spoken, tmp_path, CHUNK_MS, "synthesizer=espeak")
    theirs = read_records(tmp_path / "instances.log")
    for our, their in zip(spoken.translated("synthesizer=espeak"), theirs, strict=True):
        assert our.speech
        for key, field in (("delays", "delay"), ("durations", "duration")):
            times = [getattr(piece, field) * MS for piece in our.speech]
            assert their[key] == pytest.approx(times, abs=1e-6)
