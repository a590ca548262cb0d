"""A few sentences through a system: do its words look like those of a healthy one? Knows no configuration.

Thresholds separate what works from what is broken, not good from better: scores are for a whole test set.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from sacrebleu import corpus_chrf, sentence_chrf

from zoo.backbones.base import Backbone
from zoo.data.corpora import Corpus
from zoo.data.talks import Talk
from zoo.data.views import sentences
from zoo.errors import ZooError
from zoo.evaluation.sources import reference_segments, sources
from zoo.languages import Language
from zoo.metrics.flags import flag_speech
from zoo.streaming.session import Session
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Hypothesis, Instance, Seconds

SENTENCES = 5
SHORTEST, LONGEST = 3.0, 15.0  # seconds: of several turns, and soon over
ENDED = 0.9  # of the turns
PACE = (0.5, 1.6)  # units, as a share of the reference's
RECOGNISED = 0.8  # of the sentences; by chance one in five
NGRAM, REPEATED = 4, 0.05
FOREIGN = {"word": 0.1, "char": 0.3}  # of the letters: names may keep theirs
COPIED = 0.25  # of the words, more than the reference shares with the source
EARLY = 2 / 3  # of the sentences longer than two steps


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the verdict. value, healthy: as a person reads them. causes: where to look if it is not ok."""

    name: str
    value: str
    healthy: str
    ok: bool
    causes: str


@dataclass(slots=True)
class Heard:
    """A sentence, what was written and when, and how many of its turns were stopped at a limit."""

    source: str
    reference: str
    instance: Instance
    turns: int = 0
    truncated: int = 0


@dataclass(slots=True)
class Turns:
    """Answers of a backbone per stream: all, and those stopped at a limit."""

    all: dict[str, int] = field(default_factory=dict)
    truncated: dict[str, int] = field(default_factory=dict)

    def add(self, session: Session, hypothesis: Hypothesis) -> None:
        """Count one answer."""
        self.all[session.talk] = self.all.get(session.talk, 0) + 1
        self.truncated[session.talk] = self.truncated.get(session.talk, 0) + hypothesis.truncated


def chosen(corpus: Corpus, split: str) -> list[Talk]:
    """The first sentences of a split that are neither very short nor long, of its first talk if that has enough.

    Raises ZooError for too few.
    """
    for limit in (1, None):
        found = [
            one
            for one in sentences(corpus.talks(split, limit=limit))
            if SHORTEST <= one.duration <= LONGEST
        ]
        if len(found) >= SENTENCES:
            return found[:SENTENCES]
    raise ZooError(
        f"smoke=true needs {SENTENCES} sentences of {SHORTEST:g} to {LONGEST:g} s, but {split!r} has only {len(found)}."
    )


@contextmanager
def counted(backbone: Backbone) -> Iterator[Turns]:
    """Look at what ``decode`` answers; nothing is changed."""
    turns, decode = Turns(), backbone.decode

    def answered(sessions: Sequence[Session], *given: Any) -> list[Hypothesis]:
        hypotheses = decode(sessions, *given)
        for session, hypothesis in zip(sessions, hypotheses, strict=True):
            turns.add(session, hypothesis)
        return hypotheses

    backbone.decode = answered  # type: ignore[method-assign, assignment]
    try:
        yield turns
    finally:
        del backbone.decode  # the class's own shows again


def listen(system: StreamingSystem, talks: Sequence[Talk]) -> list[Heard]:
    """Stream each sentence on its own, one after the other."""
    streams = sources(talks, system.target_language, chunk_samples=system.chunk_samples)
    with counted(system.backbone) as turns:
        instances = list(simulate(system.eval(), streams))
    return [
        Heard(
            source=talk.segments[0].source,
            reference=reference_segments(talk, system.target_language)[0].text,
            instance=instance,
            turns=turns.all.get(talk.name, 0),
            truncated=turns.truncated.get(talk.name, 0),
        )
        for talk, instance in zip(talks, instances, strict=True)
    ]


def examine(
    heard: Sequence[Heard], target: Language, step: Seconds, *, speaking: bool = False
) -> list[Check]:
    """The verdict on what was written and, by a system that is ``speaking``, said. step: seconds between two looks."""
    return [
        _ended(heard),
        _silence(heard),
        _pace(heard, target),
        _recognised(heard),
        _repeated(heard),
        _foreign(heard, target),
        _copied(heard, target),
        _early(heard, step),
        *([_spoken(heard)] if speaking else []),
    ]


def finite(system: StreamingSystem) -> Check:
    """Whether all weights are numbers."""
    bad = [
        name
        for name, weight in system.backbone.named_parameters()
        if not bool(torch.isfinite(weight).all())
    ]
    causes = (
        f"a damaged file or float16 where bfloat16 is meant ({', '.join(bad[:2])})" if bad else ""
    )
    return Check("weights that are no numbers", str(len(bad)), "0", not bad, causes)


def _ended(heard: Sequence[Heard]) -> Check:
    turns, stopped = sum(one.turns for one in heard), sum(one.truncated for one in heard)
    return Check(
        "turns that end by themselves",
        f"{turns - stopped} of {turns}",
        f"at least {100 * ENDED:.0f} %",
        turns > 0 and turns - stopped >= ENDED * turns,
        "another end_of_turn or template than in training; base or untrained weights; no latency token",
    )


def _silence(heard: Sequence[Heard]) -> Check:
    written = sum(bool(one.instance.units) for one in heard)
    return Check(
        "sentences with any output",
        f"{written} of {len(heard)}",
        "all",
        written == len(heard),
        "adapter or decoder not loaded; another template than in training; silent audio",
    )


def _pace(heard: Sequence[Heard], target: Language) -> Check:
    seconds = sum(one.instance.source_length for one in heard)
    written = sum(len(one.instance.units) for one in heard)
    asked = sum(len(target.units(one.reference)) for one in heard)
    unit = {"word": "words", "char": "characters"}[target.unit]
    return Check(
        f"{unit} per second of speech",
        f"{written / seconds:.2f}",
        f"{PACE[0] * asked / seconds:.2f} to {PACE[1] * asked / seconds:.2f}",
        PACE[0] * asked <= written <= PACE[1] * asked,
        "too few: it hears little, see the next line; too many: turns do not end, or it comments on what it hears",
    )


def _recognised(heard: Sequence[Heard]) -> Check:
    """How many hypotheses are closer (chrF) to their own reference than to the others': what was said got through."""
    references = [one.reference for one in heard]
    right = 0
    for place, one in enumerate(heard):
        scores = [sentence_chrf(one.instance.text, [reference]).score for reference in references]
        right += scores[place] > max(score for other, score in enumerate(scores) if other != place)
    return Check(
        "closest to their own reference",
        f"{right} of {len(heard)}",
        f"at least {RECOGNISED * len(heard):.0f}",
        right >= RECOGNISED * len(heard),
        "it does not hear: encoder or adapter of another training, other encoder.heads or window, weights not loaded",
    )


def _repeated(heard: Sequence[Heard]) -> Check:
    again = grams = 0
    for one in heard:
        units = one.instance.units
        seen = [units[place : place + NGRAM] for place in range(len(units) - NGRAM + 1)]
        again, grams = again + len(seen) - len(set(seen)), grams + len(seen)
    return Check(
        f"repeated {NGRAM}-grams",
        f"{100 * again / max(grams, 1):.0f} %",
        f"at most {100 * REPEATED:.0f} %",
        again <= REPEATED * grams,
        "weights not loaded; no_repeat_ngram and repetition_penalty off for a model that needs them",
    )


def _foreign(heard: Sequence[Heard], target: Language) -> Check:
    letters = [
        sign for one in heard for sign in one.instance.text if sign.isalpha() or sign == "\ufffd"
    ]
    foreign = [
        sign for sign in letters if not unicodedata.name(sign, "").startswith(target.scripts)
    ]
    return Check(
        f"letters that are not {target.name}",
        f"{100 * len(foreign) / max(len(letters), 1):.0f} %",
        f"at most {100 * FOREIGN[target.unit]:.0f} %",
        len(foreign) <= FOREIGN[target.unit] * len(letters),
        "another target_language than in training; a tokenizer of another model",
    )


def _copied(heard: Sequence[Heard], target: Language) -> Check:
    """Words of the source that stand in the hypothesis, beside those that stand in the reference, as names do."""
    written = copied = 0
    excused = asked = 0
    for one in heard:
        source = set(_words(one.source))
        words, reference = _words(one.instance.text), _words(one.reference)
        copied, written = copied + sum(word in source for word in words), written + len(words)
        excused, asked = excused + sum(word in source for word in reference), asked + len(reference)
    share, allowed = copied / max(written, 1), min(1.0, excused / max(asked, 1) + COPIED)
    return Check(
        "words of the source",
        f"{100 * share:.0f} %",
        f"at most {100 * allowed:.0f} %",
        share <= allowed or target.unit == "char",  # their Latin letters are counted already
        "the model transcribes: wrong instruction, or languages the wrong way round",
    )


def _early(heard: Sequence[Heard], step: Seconds) -> Check:
    long = [one.instance for one in heard if one.instance.source_length > 2 * step]
    early = [one for one in long if one.delays and one.delays[0] < one.source_length]
    return Check(
        "sentences begun before they end",
        f"{len(early)} of {len(long)}",
        f"at least {EARLY * len(long):.1f}".removesuffix(".0"),
        len(early) >= EARLY * len(long),
        "a latency token or m that was not trained; a policy that waits",
    )


def _spoken(heard: Sequence[Heard]) -> Check:
    said = sum(not flag_speech([one.instance]) for one in heard)
    return Check(
        "sentences spoken at a possible pace",
        f"{said} of {len(heard)}",
        "all",
        said == len(heard),
        "text-to-unit model or vocoder of another training or language: silence, or units that never end",
    )


def _words(text: str) -> list[str]:
    return [word.strip(".,;:!?¿¡\"'()").lower() for word in text.split()]


def title(system: StreamingSystem, checkpoint: str | None) -> str:
    """What is tested: the system, its step, its size and where its weights come from."""
    weights = list(system.backbone.parameters())
    kinds = ", ".join(sorted({str(weight.dtype).removeprefix("torch.") for weight in weights}))
    size, step = sum(weight.numel() for weight in weights) / 1e6, system.chunk_samples / SAMPLE_RATE
    return (
        f"{system.name} {system.direction}, {step:.2f} s per step, {size:.1f} M parameters "
        f"({kinds}, {weights[0].device}), checkpoint: {checkpoint or 'none, what no name stands for is random'}"
    )


def show(heard: Sequence[Heard], checks: Sequence[Check], console: Console) -> None:
    """Sentences, checks and a last line that says it all."""

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    for number, one in enumerate(heard, start=1):
        say(f"{number}  source     {one.source}")
        say(f"   reference  {one.reference}")
        say(f"   hypothesis {_timed(one.instance)}")
    spoken = sum(one.instance.source_length for one in heard)
    computed = sum(chunk.compute for one in heard for chunk in one.instance.chunks)
    likeness = corpus_chrf(
        [one.instance.text for one in heard], [[one.reference for one in heard]]
    ).score
    say(
        f"{spoken:.1f} s of speech, {sum(one.turns for one in heard)} turns, {computed:.1f} s of computing, "
        f"chrF {likeness:.1f} (not judged: compare it with the last time)"
    )
    table = Table("check", "here", "healthy", "", box=None)
    for check in checks:
        table.add_row(check.name, check.value, check.healthy, "ok" if check.ok else "SUSPICIOUS")
    console.print(table)
    wrong = [check for check in checks if not check.ok]
    for check in wrong:
        say(f"{check.name}: often {check.causes}.")
    say(
        f"suspicious: {len(wrong)} of {len(checks)} checks"
        if wrong
        else f"healthy: all {len(checks)} checks"
    )


def _timed(instance: Instance) -> str:
    """``[1.92 s] Wenn die Bank [3.67 s] klein ist,``: what was written when that much had been heard."""
    parts: list[str] = []
    separator = "" if instance.unit == "char" else " "
    before: Seconds | None = None
    for unit, delay in zip(instance.units, instance.delays, strict=True):
        if delay == before:
            parts[-1] += separator + unit
        else:
            parts.append(f"[{delay:.2f} s] {unit}")
        before = delay
    return " ".join(parts) if parts else "(nothing)"
