"""What surrounds the sentences of a talk: silence, sounds between sentences and in the background.

The scenes of tst_hard have pauses of very different lengths, silence at the start and none at the
end; a third of its talks has a background of noise, another third a second voice.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zoo.base.espeak.speech import Speaker
from zoo.base.talks import Segment
from zoo.base.types import SAMPLE_RATE, Samples, Seconds
from zoo.data.minitalks.grammar import sentence
from zoo.data.minitalks.noise import KINDS, noise

# Ranges from which values are drawn.
NOISE_DURATION = (0.6, 2.5)  # seconds
NOISE_PEAK = (0.1, 0.5)  # peak relative to full scale
NOISE_PROBABILITY = 0.12  # probability of a noise after a sentence
SECOND_PAUSE = (0.3, 1.2)  # seconds between two sentences of the second voice
LEVELS = {"noise": (-20.0, -10.0), "voice": (-20.0, -12.0)}  # dB relative to the speech
# Sentences begin on whole milliseconds, so at multiples of this many samples.
GRID = SAMPLE_RATE // 1000

Audio = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scene:
    """What surrounds the sentences of a talk.

    Attributes:
        lead_in: range of the seconds of silence before the first sentence.
        pause: range of the seconds of silence after a sentence.
        log_uniform: whether the logarithm of a pause is uniform, so that short pauses are frequent
            and long ones occur.
        ends_with_speech: whether the talk ends with the last sample of its last sentence.
        background: what sounds from the first sentence to the end of the talk.
    """

    lead_in: tuple[Seconds, Seconds] = (0.2, 0.8)
    pause: tuple[Seconds, Seconds] = (0.3, 1.2)
    log_uniform: bool = False
    ends_with_speech: bool = False
    background: Literal["", "noise", "voice"] = ""

    def draw_pause(self, rng: random.Random) -> Seconds:
        """Draw the length of a pause."""
        if self.log_uniform:
            return float(np.exp(rng.uniform(*np.log(self.pause))))
        return rng.uniform(*self.pause)


HARD_SCENES = tuple(
    Scene(
        lead_in=(3.0, 8.0),
        pause=(0.2, 10.0),
        log_uniform=True,
        ends_with_speech=True,
        background=background,
    )
    for background in ("", "noise", "voice")
)


def gap(scene: Scene, rng: random.Random, generator: np.random.Generator) -> list[Audio]:
    """Return the audio after a sentence: a pause, sometimes followed by noise and another pause."""
    pieces = [silence(scene.draw_pause(rng))]
    if rng.random() < NOISE_PROBABILITY:
        duration = round(rng.uniform(*NOISE_DURATION), 3)
        kind, peak = rng.choice(sorted(KINDS)), rng.uniform(*NOISE_PEAK)
        pieces.append(noise(kind, duration=duration, peak=peak, generator=generator))
        pieces.append(silence(scene.draw_pause(rng)))
    return pieces


def silence(duration: Seconds) -> Audio:
    """Return digital silence of whole milliseconds."""
    return np.zeros(round(duration * 1000) * GRID, dtype=np.float32)


def add_background(
    wave: Audio,
    segments: Sequence[Segment],
    *,
    kind: Literal["noise", "voice"],
    seed: str,
    voices: Sequence[str],
    speaker: Speaker,
) -> Audio:
    """Add noise or a second voice from the first segment to the end.

    Args:
        wave: (n,) samples at 16 kHz.
        segments: the segments of the talk, whose speech the level of the background refers to.
        kind: key of ``LEVELS``.
        seed: seed of all random choices.
        voices: espeak-ng voices from which the second voice is drawn.
        speaker: the espeak-ng process to use.

    Returns:
        (n,) samples.
    """
    rng = random.Random(seed)
    spans = [(round(one.offset * SAMPLE_RATE), round(one.end * SAMPLE_RATE)) for one in segments]
    speech = np.concatenate([wave[start:end] for start, end in spans])
    start = spans[0][0]
    length = len(wave) - start
    if kind == "noise":
        generator = np.random.default_rng(rng.getrandbits(64))
        name = rng.choice(sorted(KINDS))
        sound = noise(name, duration=length / SAMPLE_RATE, peak=1.0, generator=generator)
    else:
        sound = _second_voice(length, rng, voice=rng.choice(voices), speaker=speaker)
    level = 10 ** (rng.uniform(*LEVELS[kind]) / 20) * _rms(speech) / _rms(sound[sound != 0])
    result = wave.copy()
    result[start:] += np.float32(level) * sound[:length]
    return result


def _second_voice(length: Samples, rng: random.Random, *, voice: str, speaker: Speaker) -> Audio:
    """Speak sentences of the grammar one after another; at least ``length`` samples."""
    pieces: list[Audio] = []
    while sum(map(len, pieces)) < length:
        spoken = speaker.speak(
            sentence(rng).words,
            voice=voice,
            rate=rng.randint(150, 200),
            pitch=rng.randint(35, 65),
            seed=rng.getrandbits(31),
        )
        pieces += [spoken.samples, silence(rng.uniform(*SECOND_PAUSE))]
    return np.concatenate(pieces)


def _rms(samples: Audio) -> float:
    return float(np.sqrt(np.square(samples, dtype=np.float64).mean()))
