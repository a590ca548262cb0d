"""Synthetic non-speech sounds of a lecture hall: applause, laughter, hum and music."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zoo.base.errors import check_choice
from zoo.base.types import SAMPLE_RATE, Seconds

Wave = NDArray[np.float64]
FADE: Seconds = 0.15  # duration of the fade-in and of the fade-out


def _applause(time: Wave, generator: np.random.Generator) -> Wave:
    """About 60 decaying claps per second."""
    wave = np.zeros(len(time))
    length = round(0.025 * SAMPLE_RATE)
    decay = np.exp(-np.arange(length) / (0.004 * SAMPLE_RATE))

    claps = max(1, round(60 * len(time) / SAMPLE_RATE))
    for start in generator.integers(0, max(1, len(time) - length), size=claps):
        clap = generator.normal(size=length) * decay * generator.uniform(0.2, 1.0)
        wave[start : start + length] += clap[: len(time) - start]
    return wave


def _laughter(time: Wave, generator: np.random.Generator) -> Wave:
    """Bursts of breath noise and a voice with vibrato, four to five per second."""
    swing = np.sin(2 * np.pi * generator.uniform(4, 5) * time)
    pitch = generator.uniform(220, 340) + 60 * swing
    voice = np.sin(2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE)
    return np.asarray((0.3 * generator.normal(size=len(time)) + voice) * (swing > 0))


def _hum(time: Wave, generator: np.random.Generator) -> Wave:
    """Second and fourth harmonic of the mains frequency, and some hiss."""
    mains = generator.choice([50.0, 60.0])
    tones = np.sin(4 * np.pi * mains * time) + 0.5 * np.sin(8 * np.pi * mains * time)
    return np.asarray(tones + 0.2 * generator.normal(size=len(time)))


def _music(time: Wave, generator: np.random.Generator) -> Wave:
    """A melody of decaying notes with overtones, from a major scale."""
    scale = 220 * 2 ** (np.array([0, 2, 4, 5, 7, 9, 11, 12]) / 12)
    beat = generator.uniform(0.2, 0.4)
    notes = generator.choice(scale, size=int(time[-1] / beat) + 1)
    pitch = notes[(time / beat).astype(int)]

    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
    tone = np.sin(phase) + 0.4 * np.sin(2 * phase) + 0.2 * np.sin(3 * phase)
    return np.asarray(tone * np.exp(-3 * (time % beat) / beat))


KINDS: dict[str, Callable[[Wave, np.random.Generator], Wave]] = {
    "applause": _applause,
    "laughter": _laughter,
    "hum": _hum,
    "music": _music,
}


def noise(
    kind: str, *, duration: Seconds, peak: float, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Synthesise a sound with a linear fade-in and fade-out.

    Args:
        kind: a key of ``KINDS``.
        duration: length in seconds.
        peak: largest magnitude of the samples.
        generator: source of all random choices.

    Returns:
        (duration x 16 kHz,) float32 samples.

    Raises:
        ZooError: ``kind`` is unknown.
    """
    check_choice("noise", kind, KINDS)
    time = np.arange(max(1, round(duration * SAMPLE_RATE))) / SAMPLE_RATE
    wave = KINDS[kind](time, generator) * np.minimum(1, np.minimum(time, time[::-1]) / FADE)
    return (peak * wave / max(float(np.abs(wave).max()), 1e-9)).astype(np.float32)
