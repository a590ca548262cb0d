"""Plans of talks (sentences, voice, seed) and their synthesis: speech, pauses and noise."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoo.data.minitalks.grammar import Sentence, sentence
from zoo.data.minitalks.noise import KINDS, noise
from zoo.errors import check_choice
from zoo.espeak.speech import Speaker
from zoo.talks import Segment, Talk, Word
from zoo.types import SAMPLE_RATE, Seconds

VOICES = (
    "en-us",
    *(f"en-us+f{i}" for i in (1, 2, 3, 4)),
    *(f"en-us+m{i}" for i in (1, 2, 3, 5, 7)),
)
UNSEEN_VOICES = ("en-us+f5", "en-us+m4", "en-us+m6")  # only in tst: talks 1, 4, 7, ...
# Ranges from which values are drawn.
RATES = (150, 200)  # words per minute
PITCHES = (35, 65)  # espeak-ng's scale of 0 to 99
LEAD_IN = (0.2, 0.8)  # seconds of silence before the first sentence
PAUSE = (0.3, 1.2)  # seconds of silence after a sentence
NOISE_DURATION = (0.6, 2.5)  # seconds
NOISE_PEAK = (0.1, 0.5)  # peak relative to full scale
GAIN = (0.4, 1.1)  # factor on the speech and the noise of a talk
NOISE_PROBABILITY = 0.12  # probability of a noise after a sentence
BACKGROUND = (0.0, 0.001, 0.003)  # standard deviations of white noise; one is drawn per talk
# Measured on generated talks, to estimate the duration of a sentence from its text.
LETTER_TIME = 8.9  # seconds per letter times the rate in words per minute
MEAN_GAP = 1.05  # seconds after a sentence, including noise
# Sentences begin on whole milliseconds, so at multiples of this many samples.
GRID = SAMPLE_RATE // 1000

Audio = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Split:
    """Size of a split.

    Attributes:
        talks: number of talks.
        shortest: target duration of the first talk in seconds.
        longest: target duration of the last talk; durations between them grow linearly.
    """

    talks: int
    shortest: Seconds
    longest: Seconds


# In order of precedence: no sentence of an earlier split occurs in a later split.
SPLITS = {"tst": Split(10, 75, 205), "dev": Split(6, 66, 100), "train": Split(480, 66, 115)}


@dataclass(frozen=True, slots=True)
class TalkPlan:
    """Everything that determines a talk.

    Attributes:
        name: name of the talk, which also seeds its pauses, noise and levels.
        voice: espeak-ng voice.
        rate: mean speaking rate in words per minute.
        pitch: pitch on espeak-ng's scale of 0 to 99.
        sentences: the sentences in order.
    """

    name: str
    voice: str
    rate: int
    pitch: int
    sentences: tuple[Sentence, ...]


def plans(split: str, *, talks: int | None = None) -> list[TalkPlan]:
    """Draw the talks of a split; each English sentence is unique in the whole corpus.

    Args:
        split: a key of ``SPLITS``.
        talks: number of talks; None: all.

    Raises:
        ZooError: ``split`` is unknown.
    """
    check_choice("split", split, SPLITS)
    used: set[str] = set()
    for name, spec in SPLITS.items():
        count = spec.talks if name != split or talks is None else min(talks, spec.talks)
        result = [_plan(name, index, used) for index in range(count)]
        if name == split:
            break
    return result


def _plan(split: str, index: int, used: set[str]) -> TalkPlan:
    rng = random.Random(f"{split}-{index}")
    spec = SPLITS[split]
    duration = spec.shortest + (spec.longest - spec.shortest) * index / max(1, spec.talks - 1)
    unseen = split == "tst" and index % 3 == 1

    rate = rng.randint(*RATES)
    return TalkPlan(
        name=f"{split}-{index:03d}",
        voice=UNSEEN_VOICES[index // 3 % len(UNSEEN_VOICES)] if unseen else rng.choice(VOICES),
        rate=rate,
        pitch=rng.randint(*PITCHES),
        sentences=tuple(_new_sentences(rng, used, duration=duration, rate=rate)),
    )


def _new_sentences(
    rng: random.Random, used: set[str], *, duration: Seconds, rate: int
) -> Iterator[Sentence]:
    """Draw sentences that are not in ``used`` up to an estimated duration; add them to ``used``."""
    estimate = 0.0
    while estimate < duration:
        candidate = sentence(rng)
        key = " ".join(candidate.words).casefold()
        if key not in used:
            used.add(key)
            estimate += LETTER_TIME * len(key) / rate + MEAN_GAP
            yield candidate


def record(plan: TalkPlan, *, speaker: Speaker, audio: Path) -> tuple[Audio, Talk]:
    """Synthesise a talk.

    Args:
        plan: the plan of the talk.
        speaker: the espeak-ng process to use.
        audio: path of the audio file to name in the talk; it is not written here.

    Returns:
        (n,) float32 samples at 16 kHz, and the talk with word and phoneme times.
    """
    rng = random.Random(f"record {plan.name}")
    generator = np.random.default_rng(rng.getrandbits(64))
    pieces = [_silence(rng.uniform(*LEAD_IN))]
    segments: list[Segment] = []
    phonemes: list[Word] = []
    for item in plan.sentences:
        offset = sum(map(len, pieces)) / SAMPLE_RATE
        samples, segment, timed = _speak(item, plan=plan, speaker=speaker, rng=rng, offset=offset)
        pieces += [samples, *_gap(rng, generator)]
        segments.append(segment)
        phonemes += timed

    wave = np.concatenate(pieces) * rng.uniform(*GAIN)
    wave += rng.choice(BACKGROUND) * generator.standard_normal(len(wave))
    talk = Talk(
        name=plan.name,
        audio=audio,
        duration=round(len(wave) / SAMPLE_RATE, 3),
        source_language="en",
        segments=tuple(segments),
        voice=plan.voice,
        labels={"phonemes": tuple(phonemes)},
    )
    return wave.astype(np.float32), talk


def _speak(
    item: Sentence, *, plan: TalkPlan, speaker: Speaker, rng: random.Random, offset: Seconds
) -> tuple[Audio, Segment, list[Word]]:
    """Synthesise one sentence.

    Returns:
        Samples, the segment at ``offset``, and phonemes; times are seconds in the talk.
    """
    utterance = speaker.speak(
        item.words,
        voice=plan.voice,
        rate=plan.rate + rng.randint(-8, 8),
        pitch=plan.pitch,
        seed=rng.getrandbits(31),
    )
    samples = np.pad(utterance.samples, (0, -len(utterance.samples) % GRID))
    segment = Segment(
        offset=round(offset, 3),
        duration=round(len(samples) / SAMPLE_RATE, 3),
        source=" ".join(item.words),
        words=tuple(_shifted(word, offset) for word in utterance.words),
        targets=item.targets,
    )
    return samples, segment, [_shifted(phoneme, offset) for phoneme in utterance.phonemes]


def _shifted(word: Word, offset: Seconds) -> Word:
    return replace(word, start=round(word.start + offset, 3), end=round(word.end + offset, 3))


def _gap(rng: random.Random, generator: np.random.Generator) -> list[Audio]:
    """Return the audio after a sentence: a pause, sometimes followed by noise and another pause."""
    pieces = [_silence(rng.uniform(*PAUSE))]
    if rng.random() < NOISE_PROBABILITY:
        duration = round(rng.uniform(*NOISE_DURATION), 3)
        kind, peak = rng.choice(sorted(KINDS)), rng.uniform(*NOISE_PEAK)
        pieces.append(noise(kind, duration=duration, peak=peak, generator=generator))
        pieces.append(_silence(rng.uniform(*PAUSE)))
    return pieces


def _silence(duration: Seconds) -> Audio:
    return np.zeros(round(duration * 1000) * GRID, dtype=np.float32)
