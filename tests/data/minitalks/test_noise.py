"""Noises are seeded, faded, as loud and as long as asked for, and different in kind."""

import numpy as np
import pytest

from zoo.base.errors import ZooError
from zoo.data.minitalks.noise import KINDS, noise


def make(kind: str, *, seed: int = 1, duration: float = 1.5) -> np.ndarray:
    return noise(kind, duration=duration, peak=0.4, generator=np.random.default_rng(seed))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind: str) -> None:
    wave = make(kind)
    assert wave.dtype == np.float32
    assert wave.shape == (24_000,)
    assert np.abs(wave).max() == pytest.approx(0.4, rel=1e-5)
    assert np.abs(wave[:16]).max() < 0.01 > np.abs(wave[-16:]).max()
    assert np.sqrt(np.mean(wave**2)) > 0.01
    assert make(kind).tobytes() == wave.tobytes() != make(kind, seed=2).tobytes()
    assert np.isfinite(make(kind, duration=0.01)).all()


def test_unknown_kind() -> None:
    with pytest.raises(ZooError, match="Unknown noise 'rain'; choose one of: applause"):
        make("rain")
