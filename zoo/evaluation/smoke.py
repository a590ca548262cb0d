"""Smoke test: streams a few sentences through a system and checks its output.

The thresholds separate a working system from a broken one, not a good one from a better one; scores
need a whole test set.
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
SHORTEST, LONGEST = 3.0, 15.0  # seconds: several turns, but short to compute
ENDED = 0.9  # share of turns, at least
PACE = (0.5, 1.6)  # number of units, as a share of the reference's
RECOGNISED = 0.8  # share of sentences, at least; chance is one in five
NGRAM, REPEATED = 4, 0.05  # share of repeated n-grams, at most
FOREIGN = {"word": 0.1, "char": 0.3}  # share of letters, at most: names keep their script
COPIED = 0.25  # share of source words, at most this much above the reference's
EARLY = 2 / 3  # share of sentences longer than two steps, at least


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check.

    Attributes:
        name: what is measured.
        value: measured value, as text.
        healthy: range of a working system, as text.
        ok: whether the value is in that range.
        causes: usual causes of a failure.
    """

    name: str
    value: str
    healthy: str
    ok: bool
    causes: str


@dataclass(slots=True)
class Output:
    """Output of the system for one sentence.

    Attributes:
        source: transcript.
        reference: reference translation.
        instance: emitted words with delays.
        turns: number of hypotheses.
        truncated: number of hypotheses that reached a length limit.
    """

    source: str
    reference: str
    instance: Instance
    turns: int = 0
    truncated: int = 0


@dataclass(slots=True)
class Turns:
    """Number of hypotheses per stream: all, and those that reached a length limit."""

    all: dict[str, int] = field(default_factory=dict)
    truncated: dict[str, int] = field(default_factory=dict)

    def add(self, session: Session, hypothesis: Hypothesis) -> None:
        """Count one hypothesis."""
        self.all[session.talk] = self.all.get(session.talk, 0) + 1
        self.truncated[session.talk] = self.truncated.get(session.talk, 0) + hypothesis.truncated


def chosen(corpus: Corpus, split: str) -> list[Talk]:
    """The first sentences of a split with a suitable duration, from its first talk if possible.

    Raises ZooError for a split with too few of them.
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
        f"smoke=true needs {SENTENCES} sentences of {SHORTEST:g} to {LONGEST:g} s, "
        f"but {split!r} has only {len(found)}."
    )


@contextmanager
def counted(backbone: Backbone) -> Iterator[Turns]:
    """Count the hypotheses that ``decode`` returns while the block runs."""
    turns, decode = Turns(), backbone.decode

    def decode_and_count(sessions: Sequence[Session], *given: Any) -> list[Hypothesis]:
        hypotheses = decode(sessions, *given)
        for session, hypothesis in zip(sessions, hypotheses, strict=True):
            turns.add(session, hypothesis)
        return hypotheses

    backbone.decode = decode_and_count  # type: ignore[method-assign, assignment]
    try:
        yield turns
    finally:
        del backbone.decode  # the instance attribute; the class's method is visible again


def translate(system: StreamingSystem, talks: Sequence[Talk]) -> list[Output]:
    """Stream each sentence as a talk of its own."""
    streams = sources(talks, system.target_language, chunk_samples=system.chunk_samples)
    with counted(system.backbone) as turns:
        instances = list(simulate(system.eval(), streams))
    return [
        Output(
            source=talk.segments[0].source,
            reference=reference_segments(talk, system.target_language)[0].text,
            instance=instance,
            turns=turns.all.get(talk.name, 0),
            truncated=turns.truncated.get(talk.name, 0),
        )
        for talk, instance in zip(talks, instances, strict=True)
    ]


def check_outputs(
    outputs: Sequence[Output], target: Language, step: Seconds, *, speaking: bool = False
) -> list[Check]:
    """Check the emitted words, and the target speech of a speaking system.

    Args:
        outputs: output for each sentence.
        target: target language.
        step: seconds of source per step.
        speaking: whether the system has target speech.
    """
    return [
        _ended(outputs),
        _silence(outputs),
        _pace(outputs, target),
        _recognised(outputs),
        _repeated(outputs),
        _foreign(outputs, target),
        _copied(outputs, target),
        _early(outputs, step),
        *([_spoken(outputs)] if speaking else []),
    ]


def check_weights(system: StreamingSystem) -> Check:
    """Check that all weights are finite."""
    bad = [
        name
        for name, weight in system.backbone.named_parameters()
        if not bool(torch.isfinite(weight).all())
    ]
    causes = (
        f"a damaged file or float16 where bfloat16 is meant ({', '.join(bad[:2])})" if bad else ""
    )
    return Check("weights that are not finite", str(len(bad)), "0", not bad, causes)


def _ended(outputs: Sequence[Output]) -> Check:
    turns, stopped = sum(one.turns for one in outputs), sum(one.truncated for one in outputs)
    return Check(
        "turns that end by themselves",
        f"{turns - stopped} of {turns}",
        f"at least {100 * ENDED:.0f} %",
        turns > 0 and turns - stopped >= ENDED * turns,
        "another end_of_turn or template than in training; base or untrained weights; "
        "no latency token",
    )


def _silence(outputs: Sequence[Output]) -> Check:
    written = sum(bool(one.instance.units) for one in outputs)
    return Check(
        "sentences with any output",
        f"{written} of {len(outputs)}",
        "all",
        written == len(outputs),
        "adapter or decoder not loaded; another template than in training; silent audio",
    )


def _pace(outputs: Sequence[Output], target: Language) -> Check:
    seconds = sum(one.instance.source_length for one in outputs)
    written = sum(len(one.instance.units) for one in outputs)
    asked = sum(len(target.units(one.reference)) for one in outputs)
    unit = {"word": "words", "char": "characters"}[target.unit]
    return Check(
        f"{unit} per second of speech",
        f"{written / seconds:.2f}",
        f"{PACE[0] * asked / seconds:.2f} to {PACE[1] * asked / seconds:.2f}",
        PACE[0] * asked <= written <= PACE[1] * asked,
        "too few: the audio hardly reaches the decoder, see the next line; "
        "too many: turns do not end, or the model comments on the audio",
    )


def _recognised(outputs: Sequence[Output]) -> Check:
    """Hypotheses closer (chrF) to their own reference than to any other."""
    references = [one.reference for one in outputs]
    right = 0
    for place, one in enumerate(outputs):
        scores = [sentence_chrf(one.instance.text, [reference]).score for reference in references]
        right += scores[place] > max(score for other, score in enumerate(scores) if other != place)
    return Check(
        "closest to their own reference",
        f"{right} of {len(outputs)}",
        f"at least {RECOGNISED * len(outputs):.0f}",
        right >= RECOGNISED * len(outputs),
        "the audio does not reach the decoder: encoder or adapter of another training, other "
        "encoder.heads or window, weights not loaded",
    )


def _repeated(outputs: Sequence[Output]) -> Check:
    again = grams = 0
    for one in outputs:
        units = one.instance.units
        seen = [units[place : place + NGRAM] for place in range(len(units) - NGRAM + 1)]
        again, grams = again + len(seen) - len(set(seen)), grams + len(seen)
    return Check(
        f"repeated {NGRAM}-grams",
        f"{100 * again / max(grams, 1):.0f} %",
        f"at most {100 * REPEATED:.0f} %",
        again <= REPEATED * grams,
        "weights not loaded; no_repeat_ngram and repetition_penalty off for a model that needs "
        "them",
    )


def _foreign(outputs: Sequence[Output], target: Language) -> Check:
    letters = [
        sign for one in outputs for sign in one.instance.text if sign.isalpha() or sign == "\ufffd"
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


def _copied(outputs: Sequence[Output], target: Language) -> Check:
    """Share of source words in the hypothesis, compared with the reference (names)."""
    written = copied = 0
    excused = asked = 0
    for one in outputs:
        source = set(_words(one.source))
        words, reference = _words(one.instance.text), _words(one.reference)
        copied, written = copied + sum(word in source for word in words), written + len(words)
        excused, asked = excused + sum(word in source for word in reference), asked + len(reference)
    share, allowed = copied / max(written, 1), min(1.0, excused / max(asked, 1) + COPIED)
    return Check(
        "words of the source",
        f"{100 * share:.0f} %",
        f"at most {100 * allowed:.0f} %",
        share <= allowed or target.unit == "char",  # _foreign counts their Latin letters
        "the model transcribes: wrong instruction, or languages the wrong way round",
    )


def _early(outputs: Sequence[Output], step: Seconds) -> Check:
    long = [one.instance for one in outputs if one.instance.source_length > 2 * step]
    early = [one for one in long if one.delays and one.delays[0] < one.source_length]
    return Check(
        "sentences begun before they end",
        f"{len(early)} of {len(long)}",
        f"at least {EARLY * len(long):.1f}".removesuffix(".0"),
        len(early) >= EARLY * len(long),
        "a latency token or m that was not trained; a policy that waits",
    )


def _spoken(outputs: Sequence[Output]) -> Check:
    spoken = sum(not flag_speech([one.instance]) for one in outputs)
    return Check(
        "sentences spoken at a possible pace",
        f"{spoken} of {len(outputs)}",
        "all",
        spoken == len(outputs),
        "text-to-unit model or vocoder of another training or language: silence, or units that "
        "never end",
    )


def _words(text: str) -> list[str]:
    return [word.strip(".,;:!?¿¡\"'()").lower() for word in text.split()]


def title(system: StreamingSystem, checkpoint: str | None) -> str:
    """One line on the system: its step, its size and its weights."""
    weights = list(system.backbone.parameters())
    kinds = ", ".join(sorted({str(weight.dtype).removeprefix("torch.") for weight in weights}))
    size, step = sum(weight.numel() for weight in weights) / 1e6, system.chunk_samples / SAMPLE_RATE
    return (
        f"{system.name} {system.direction}, {step:.2f} s per step, {size:.1f} M parameters "
        f"({kinds}, {weights[0].device}), "
        f"checkpoint: {checkpoint or 'none, unnamed parts are randomly initialised'}"
    )


def show(outputs: Sequence[Output], checks: Sequence[Check], console: Console) -> None:
    """Print the sentences, the checks and a summary line.

    Args:
        outputs: output for each sentence.
        checks: results of all checks.
        console: where to print.
    """

    def print_line(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    for number, one in enumerate(outputs, start=1):
        print_line(f"{number}  source     {one.source}")
        print_line(f"   reference  {one.reference}")
        print_line(f"   hypothesis {_timed(one.instance)}")
    spoken = sum(one.instance.source_length for one in outputs)
    computed = sum(chunk.compute for one in outputs for chunk in one.instance.chunks)
    likeness = corpus_chrf(
        [one.instance.text for one in outputs], [[one.reference for one in outputs]]
    ).score
    print_line(
        f"{spoken:.1f} s of speech, {sum(one.turns for one in outputs)} turns, "
        f"{computed:.1f} s of computing, chrF {likeness:.1f} (not checked: compare it with earlier "
        "smoke tests)"
    )

    table = Table("check", "here", "healthy", "", box=None)
    for check in checks:
        table.add_row(check.name, check.value, check.healthy, "ok" if check.ok else "SUSPICIOUS")
    console.print(table)
    wrong = [check for check in checks if not check.ok]
    for check in wrong:
        print_line(f"{check.name}: often {check.causes}.")
    print_line(
        f"suspicious: {len(wrong)} of {len(checks)} checks"
        if wrong
        else f"healthy: all {len(checks)} checks"
    )


def _timed(instance: Instance) -> str:
    """``[1.92 s] Wenn die Bank [3.67 s] klein ist,``: words with their delays."""
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
