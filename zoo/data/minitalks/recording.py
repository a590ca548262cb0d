"""What is said in which talk, by whom and when, and the sound of it. Knows grammar and speaker, but no cache."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoo.data.minitalks.grammar import Sentence, sentence
from zoo.data.minitalks.noise import KINDS, noise
from zoo.data.minitalks.speech import Speaker
from zoo.data.talks import Segment, Talk, Word
from zoo.errors import unknown_choice
from zoo.types import SAMPLE_RATE, Seconds

VOICES = (
    "en-us",
    *(f"en-us+f{i}" for i in (1, 2, 3, 4)),
    *(f"en-us+m{i}" for i in (1, 2, 3, 5, 7)),
)
UNSEEN_VOICES = ("en-us+f5", "en-us+m4", "en-us+m6")  # in tst only: talks 1, 4, 7, ...
RATES, PITCHES = (150, 200), (35, 65)  # words per minute; espeak-ng's scale of 0-99
LEAD_IN, PAUSE = (0.2, 0.8), (0.3, 1.2)  # seconds
NOISE_SHARE, NOISE_DURATION, NOISE_PEAK = 0.12, (0.6, 2.5), (0.1, 0.5)
LEVEL, BACKGROUND = (0.4, 1.1), (0.0, 0.001, 0.003)
LETTER_TIME, GAP = (
    8.9,
    1.05,
)  # measured: seconds per letter x rate; mean pause with noise after a sentence
GRID = SAMPLE_RATE // 1000  # samples: everything begins on a millisecond

Audio = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Split:
    """Number of talks and the length the first and the last of them aim at (the others lie evenly between)."""

    talks: int
    shortest: Seconds
    longest: Seconds


# In order of precedence: no sentence of an earlier split occurs in a later one.
SPLITS = {"tst": Split(10, 75, 205), "dev": Split(6, 66, 100), "train": Split(480, 66, 115)}


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides a talk: its sentences, its voice and the seed of all its other choices."""

    name: str
    voice: str
    rate: int
    pitch: int
    sentences: tuple[Sentence, ...]


def plans(split: str, *, talks: int | None = None) -> list[Plan]:
    """The first ``talks`` plans of a split (None: all). No English sentence comes twice in the whole corpus."""
    if split not in SPLITS:
        raise unknown_choice("split", split, SPLITS)
    said: set[str] = set()
    for name, spec in SPLITS.items():
        count = spec.talks if name != split or talks is None else min(talks, spec.talks)
        made = [_plan(name, index, said) for index in range(count)]
        if name == split:
            break
    return made


def _plan(split: str, index: int, said: set[str]) -> Plan:
    rng = random.Random(f"{split}-{index}")
    spec = SPLITS[split]
    aim = spec.shortest + (spec.longest - spec.shortest) * index / max(1, spec.talks - 1)
    unseen = split == "tst" and index % 3 == 1
    rate = rng.randint(*RATES)
    return Plan(
        name=f"{split}-{index:03d}",
        voice=UNSEEN_VOICES[index // 3 % len(UNSEEN_VOICES)] if unseen else rng.choice(VOICES),
        rate=rate,
        pitch=rng.randint(*PITCHES),
        sentences=tuple(_sentences(rng, said, aim=aim, rate=rate)),
    )


def _sentences(
    rng: random.Random, said: set[str], *, aim: Seconds, rate: int
) -> Iterator[Sentence]:
    """New sentences until they should last ``aim`` seconds."""
    estimate = 0.0
    while estimate < aim:
        candidate = sentence(rng)
        key = " ".join(candidate.words).casefold()
        if key not in said:
            said.add(key)
            estimate += LETTER_TIME * len(key) / rate + GAP
            yield candidate


def record(plan: Plan, *, speaker: Speaker, audio: Path) -> tuple[Audio, Talk]:
    """Samples (n,) float32 at 16 kHz and their talk, which will say that they lie in ``audio``."""
    rng = random.Random(f"record {plan.name}")
    generator = np.random.default_rng(rng.getrandbits(64))
    pieces = [_silence(rng.uniform(*LEAD_IN))]
    segments: list[Segment] = []
    phonemes: list[Word] = []
    for said in plan.sentences:
        offset = sum(map(len, pieces)) / SAMPLE_RATE
        samples, segment, heard = _utter(said, plan=plan, speaker=speaker, rng=rng, offset=offset)
        pieces += [samples, *_gap(rng, generator)]
        segments.append(segment)
        phonemes += heard
    wave = np.concatenate(pieces) * rng.uniform(*LEVEL)
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


def _utter(
    said: Sentence, *, plan: Plan, speaker: Speaker, rng: random.Random, offset: Seconds
) -> tuple[Audio, Segment, list[Word]]:
    """One sentence as samples, as a segment at ``offset`` and as phonemes, with times in the talk."""
    utterance = speaker.speak(
        said.words,
        voice=plan.voice,
        rate=plan.rate + rng.randint(-8, 8),
        pitch=plan.pitch,
        seed=rng.getrandbits(31),
    )
    samples = np.pad(utterance.samples, (0, -len(utterance.samples) % GRID))
    segment = Segment(
        offset=round(offset, 3),
        duration=round(len(samples) / SAMPLE_RATE, 3),
        source=" ".join(said.words),
        words=tuple(_moved(word, offset) for word in utterance.words),
        targets=said.targets,
    )
    return samples, segment, [_moved(phoneme, offset) for phoneme in utterance.phonemes]


def _moved(word: Word, offset: Seconds) -> Word:
    return replace(word, start=round(word.start + offset, 3), end=round(word.end + offset, 3))


def _gap(rng: random.Random, generator: np.random.Generator) -> list[Audio]:
    """What follows a sentence: a pause, sometimes a noise and another pause."""
    pieces = [_silence(rng.uniform(*PAUSE))]
    if rng.random() < NOISE_SHARE:
        length = round(rng.uniform(*NOISE_DURATION), 3)
        kind, peak = rng.choice(sorted(KINDS)), rng.uniform(*NOISE_PEAK)
        pieces += [
            noise(kind, duration=length, peak=peak, generator=generator),
            _silence(rng.uniform(*PAUSE)),
        ]
    return pieces


def _silence(length: Seconds) -> Audio:
    return np.zeros(round(length * 1000) * GRID, dtype=np.float32)
