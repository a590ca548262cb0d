"""A talk is noisy if its background is loud, or if much loud sound is between its segments."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from zoo.base.talks import Segment, Talk
from zoo.data.background import background

RATE = 16_000


def talk(
    path: Path,
    *,
    noise: float = 0.0,
    applause: tuple[float, float] = (0.0, 0.0),
    scale: float = 1.0,
) -> Talk:
    """Speech of 0.1 from 1 to 4 s and from 10 to 13 s of 20 s; applause as loud from A to B."""
    samples = noise * np.random.default_rng(1).standard_normal(20 * RATE)
    tone = 0.1 * np.sqrt(2) * np.sin(np.arange(20 * RATE))
    for begin, end in ((1.0, 4.0), (10.0, 13.0), applause):
        samples[int(begin * RATE) : int(end * RATE)] += tone[int(begin * RATE) : int(end * RATE)]
    soundfile.write(path, scale * samples, RATE, subtype="FLOAT")
    return Talk("t", path, 20.0, "en", (Segment(1.0, 3.0, "a"), Segment(10.0, 3.0, "b")))


@pytest.mark.parametrize(
    ("noise", "end_of_applause", "is_noisy"),
    [(0.0, 6.0, False), (0.002, 6.0, False), (0.008, 6.0, True), (0.0, 8.0, True)],
)
def test_noise_is_relative_to_the_speech(
    tmp_path: Path, noise: float, end_of_applause: float, is_noisy: bool
) -> None:
    quiet = background(
        talk(tmp_path / "q.wav", noise=noise, applause=(5.5, end_of_applause), scale=0.1)
    )
    loud = background(talk(tmp_path / "l.wav", noise=noise, applause=(5.5, end_of_applause)))
    assert quiet is not None
    assert loud is not None
    assert quiet.is_noisy is loud.is_noisy is is_noisy
    assert quiet.loud == pytest.approx(loud.loud) == pytest.approx(end_of_applause - 5.5, abs=0.06)
    if noise:
        assert loud.level == pytest.approx(20 * np.log10(noise / 0.1), abs=0.5)


def test_nothing_is_measured_without_audio_or_without_a_gap(tmp_path: Path) -> None:
    spoken = talk(tmp_path / "a.wav")
    whole = (Segment(0.0, 20.0, "a"),)
    assert background(Talk("t", spoken.audio, 20.0, "en", whole)) is None
    assert background(Talk("t", spoken.audio, 20.0, "en", ())) is None
    assert background(Talk("t", None, 20.0, "en", whole)) is None
