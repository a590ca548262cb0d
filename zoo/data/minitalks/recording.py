"""Plans of talks (sentences, voice, scene, seed) and their synthesis."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from zoo.base.errors import check_choice
from zoo.base.espeak.speech import Speaker
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.data.minitalks.grammar import Sentence, sentence
from zoo.data.minitalks.hard import interrupt, rare_sentence
from zoo.data.minitalks.names import named_sentence, names_of
from zoo.data.minitalks.scene import GRID, HARD_SCENES, Audio, Scene, add_background, gap, silence

VOICES = (
    "en-us",
    *(f"en-us+f{i}" for i in (1, 2, 3, 4)),
    *(f"en-us+m{i}" for i in (1, 2, 3, 5, 7)),
)
UNSEEN_VOICES = ("en-us+f5", "en-us+m4", "en-us+m6")  # only in tst: talks 1, 4, 7, ...
# Ranges from which values are drawn.
RATES = (150, 200)  # words per minute
PITCHES = (35, 65)  # espeak-ng's scale of 0 to 99
GAIN = (0.4, 1.1)  # factor on the speech and the noise of a talk
HISS = (0.0, 0.001, 0.003)  # standard deviations of white noise; one is drawn per talk
# Measured on generated talks, to estimate the duration of a sentence from its text.
LETTER_TIME = 8.9  # seconds per letter times the rate in words per minute
MEAN_GAP = 1.05  # seconds after a sentence, including noise
HARD_GAP = 3.5  # the same in a hard split, including repeated words


@dataclass(frozen=True, slots=True)
class Split:
    """Size of a split.

    Attributes:
        talks: number of talks.
        shortest: target duration of the first talk in seconds.
        longest: target duration of the last talk; durations between them grow linearly.
        hard: whether the talks have the sentences of ``hard.py`` and ``HARD_SCENES`` in turn.
        named: whether the talks have the sentences of ``names.py``.
    """

    talks: int
    shortest: Seconds
    longest: Seconds
    hard: bool = False
    named: bool = False


# In order of precedence: no sentence of an earlier split occurs in a later split.
SPLITS = {
    "tst": Split(10, 75, 205),
    "dev": Split(6, 66, 100),
    "train": Split(480, 66, 115),
    "tst_hard": Split(6, 70, 110, hard=True),
    "tst_names": Split(4, 70, 100, named=True),
    "train_names": Split(240, 66, 115, named=True),
}


@dataclass(frozen=True, slots=True)
class TalkPlan:
    """Everything that determines a talk.

    Attributes:
        name: name of the talk, which also seeds its pauses, noise and levels.
        voice: espeak-ng voice.
        rate: mean speaking rate in words per minute.
        pitch: pitch on espeak-ng's scale of 0 to 99.
        sentences: the sentences in order.
        scene: what surrounds the speech.
        names: invented names that the sentences may have, the glossary of the talk.
    """

    name: str
    voice: str
    rate: int
    pitch: int
    sentences: tuple[Sentence, ...]
    scene: Scene = field(default_factory=Scene)
    names: tuple[str, ...] = ()


def plans(split: str, *, talks: int | None = None) -> list[TalkPlan]:
    """Draw the talks of a split; each English sentence is unique in the whole corpus.

    Two sentences of a hard split are different without their interruptions, too.

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
    names = names_of(split, index) if spec.named else ()
    draw = _drawing(spec, names)
    return TalkPlan(
        name=f"{split}-{index:03d}",
        voice=UNSEEN_VOICES[index // 3 % len(UNSEEN_VOICES)] if unseen else rng.choice(VOICES),
        rate=rate,
        pitch=rng.randint(*PITCHES),
        sentences=tuple(
            _new_sentences(rng, used, draw, duration=duration, rate=rate, hard=spec.hard)
        ),
        scene=HARD_SCENES[index % len(HARD_SCENES)] if spec.hard else Scene(),
        names=names,
    )


def _drawing(spec: Split, names: tuple[str, ...]) -> Callable[[random.Random], Sentence]:
    """Return the function that draws a sentence of a split."""
    if spec.named:
        return partial(named_sentence, names=names)
    return rare_sentence if spec.hard else sentence


def _new_sentences(
    rng: random.Random,
    used: set[str],
    draw: Callable[[random.Random], Sentence],
    *,
    duration: Seconds,
    rate: int,
    hard: bool,
) -> Iterator[Sentence]:
    """Draw sentences that are not in ``used`` up to an estimated duration; add them to ``used``."""
    estimate = 0.0
    while estimate < duration:
        candidate = draw(rng)
        key = " ".join(candidate.words).casefold()
        if key not in used:
            used.add(key)
            estimate += LETTER_TIME * len(key) / rate + (HARD_GAP if hard else MEAN_GAP)
            yield interrupt(candidate, rng) if hard else candidate


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
    pieces = [silence(rng.uniform(*plan.scene.lead_in))]
    segments: list[Segment] = []
    phonemes: list[Word] = []
    for item in plan.sentences:
        offset = sum(map(len, pieces)) / SAMPLE_RATE
        samples, segment, timed = _speak(item, plan=plan, speaker=speaker, rng=rng, offset=offset)
        pieces += [samples, *gap(plan.scene, rng, generator)]
        segments.append(segment)
        phonemes += timed

    wave = np.concatenate(pieces)
    if plan.scene.ends_with_speech:
        wave = wave[: round(segments[-1].end * SAMPLE_RATE)]
    if plan.scene.background:
        wave = add_background(
            wave,
            segments,
            kind=plan.scene.background,
            seed=f"background {plan.name}",
            voices=[voice for voice in VOICES if voice != plan.voice],
            speaker=speaker,
        )
    wave *= rng.uniform(*GAIN)
    wave += rng.choice(HISS) * generator.standard_normal(len(wave))
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
