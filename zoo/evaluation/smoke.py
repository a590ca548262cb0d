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
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Hypothesis, Instance, Seconds
from zoo.data.corpora import Corpus
from zoo.data.views import sentences
from zoo.evaluation.talks import reference_segments
from zoo.metrics.flags import flag_speech
from zoo.streaming.queue import TalkQueue
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

SENTENCES = 5  # number of sentences to stream
# Duration of a sentence in seconds: long enough for several turns, short enough to compute soon.
SHORTEST, LONGEST = 3.0, 15.0
ENDED = 0.9  # minimum share of turns that end before a length limit
PACE = (0.5, 1.6)  # minimum and maximum number of units, relative to the references
# Minimum share of sentences that are closest to their own reference; random output has one in five.
RECOGNISED = 0.8
NGRAM, REPEATED = 4, 0.05  # length of the n-grams, and maximum share of repeated n-grams
# Maximum share of letters in another script, by unit; names may keep their script.
FOREIGN = {"word": 0.1, "char": 0.3}
# Maximum share of source words in the output, above the share in the references (names).
COPIED = 0.25
# Minimum share of sentences (of those longer than two steps) whose output begins before they end.
EARLY = 2 / 3


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check.

    Attributes:
        name: name of the measured quantity.
        value: measured value, as text.
        expected: range of the values of a working system, as text.
        ok: whether the value is in that range.
        causes: usual causes of a value outside the range.
    """

    name: str
    value: str
    expected: str
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
    """Number of hypotheses of each stream.

    Attributes:
        total: number of all hypotheses, by name of the talk.
        truncated: number of hypotheses that reached a length limit, by name of the talk.
    """

    total: dict[str, int] = field(default_factory=dict)
    truncated: dict[str, int] = field(default_factory=dict)

    def add(self, session: Session, hypothesis: Hypothesis) -> None:
        """Count one hypothesis."""
        self.total[session.talk] = self.total.get(session.talk, 0) + 1
        self.truncated[session.talk] = self.truncated.get(session.talk, 0) + hypothesis.truncated


def pick_sentences(corpus: Corpus, split: str) -> list[Talk]:
    """Return the first sentences of a split with a suitable duration.

    Raises ZooError for a split with too few such sentences.
    """
    # The first talk is usually enough, and a large corpus takes long to read.
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
def count_hypotheses(backbone: Backbone) -> Iterator[Turns]:
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
        del backbone.decode  # removes the attribute of the instance, not the method of the class


def translate(system: StreamingSystem, talks: Sequence[Talk]) -> list[Output]:
    """Stream each sentence as a talk of its own."""
    with count_hypotheses(system.backbone) as turns:
        instances = list(system.eval().stream(TalkQueue(talks).only(range(len(talks)))))
    return [
        Output(
            source=talk.segments[0].source,
            reference=reference_segments(talk, system.target_language)[0].text,
            instance=instance,
            turns=turns.total.get(talk.name, 0),
            truncated=turns.truncated.get(talk.name, 0),
        )
        for talk, instance in zip(talks, instances, strict=True)
    ]


def check_outputs(
    outputs: Sequence[Output], target: Language, step: Seconds, *, with_speech: bool = False
) -> list[Check]:
    """Check the emitted words, and the target speech if the system has some.

    Args:
        outputs: output for each sentence.
        target: target language.
        step: seconds of source per step.
        with_speech: whether the system has target speech.
    """
    return [
        _check_ends(outputs),
        _check_output(outputs),
        _check_pace(outputs, target),
        _check_references(outputs),
        _check_repetition(outputs),
        _check_script(outputs, target),
        _check_copies(outputs, target),
        _check_start(outputs, step),
        *([_check_speech(outputs)] if with_speech else []),
    ]


def check_weights(system: StreamingSystem) -> Check:
    """Check that all weights are finite."""
    bad = [
        name
        for name, weight in system.backbone.named_parameters()
        if not bool(torch.isfinite(weight).all())
    ]
    causes = (
        f"a damaged file or float16 where bfloat16 is needed ({', '.join(bad[:2])})" if bad else ""
    )
    return Check("weights that are not finite", str(len(bad)), "0", not bad, causes)


def _check_ends(outputs: Sequence[Output]) -> Check:
    """Check the share of turns that end before a length limit."""
    turns = sum(one.turns for one in outputs)
    truncated = sum(one.truncated for one in outputs)
    return Check(
        "turns that end by themselves",
        f"{turns - truncated} of {turns}",
        f"at least {100 * ENDED:.0f} %",
        turns > 0 and turns - truncated >= ENDED * turns,
        "another end_of_turn or template than in training; base or untrained weights; "
        "no latency token",
    )


def _check_output(outputs: Sequence[Output]) -> Check:
    """Check that every sentence has output."""
    num_outputs = sum(bool(one.instance.units) for one in outputs)
    return Check(
        "sentences with any output",
        f"{num_outputs} of {len(outputs)}",
        "all",
        num_outputs == len(outputs),
        "adapter or decoder not loaded; another template than in training; silent audio",
    )


def _check_pace(outputs: Sequence[Output], target: Language) -> Check:
    """Check the number of units, relative to the references."""
    seconds = sum(one.instance.source_length for one in outputs)
    num_units = sum(len(one.instance.units) for one in outputs)
    expected = sum(len(target.units(one.reference)) for one in outputs)
    unit = {"word": "words", "char": "characters"}[target.unit]
    return Check(
        f"{unit} per second of speech",
        f"{num_units / seconds:.2f}",
        f"{PACE[0] * expected / seconds:.2f} to {PACE[1] * expected / seconds:.2f}",
        PACE[0] * expected <= num_units <= PACE[1] * expected,
        "too few: the audio hardly reaches the decoder, see the next line; "
        "too many: turns do not end, or the model comments on the audio",
    )


def _check_references(outputs: Sequence[Output]) -> Check:
    """Check the share of hypotheses that are closest (chrF) to their own reference."""
    references = [one.reference for one in outputs]
    closest = 0
    for place, one in enumerate(outputs):
        scores = [sentence_chrf(one.instance.text, [reference]).score for reference in references]
        own_score = scores.pop(place)
        closest += own_score > max(scores)
    return Check(
        "closest to their own reference",
        f"{closest} of {len(outputs)}",
        f"at least {RECOGNISED * len(outputs):.0f}",
        closest >= RECOGNISED * len(outputs),
        "the audio does not reach the decoder: encoder or adapter of another training, other "
        "encoder.heads or window, weights not loaded",
    )


def _check_repetition(outputs: Sequence[Output]) -> Check:
    """Check the share of n-grams that have occurred before in the same sentence."""
    repeated = total = 0
    for one in outputs:
        units = one.instance.units
        ngrams = [units[place : place + NGRAM] for place in range(len(units) - NGRAM + 1)]
        repeated += len(ngrams) - len(set(ngrams))
        total += len(ngrams)
    return Check(
        f"repeated {NGRAM}-grams",
        f"{100 * repeated / max(total, 1):.0f} %",
        f"at most {100 * REPEATED:.0f} %",
        repeated <= REPEATED * total,
        "weights not loaded; no_repeat_ngram and repetition_penalty off for a model that needs "
        "them",
    )


def _check_script(outputs: Sequence[Output], target: Language) -> Check:
    """Check the share of letters that are not in a script of the target language."""
    text = "".join(one.instance.text for one in outputs)
    # U+FFFD replaces bytes that are no character; it counts as a letter of no script
    letters = [sign for sign in text if sign.isalpha() or sign == "\ufffd"]
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


def _check_copies(outputs: Sequence[Output], target: Language) -> Check:
    """Check the share of source words in the output, relative to the references (names)."""
    copied: list[bool] = []  # for each word of the output, whether the source has it
    expected: list[bool] = []  # the same for each word of the references
    for one in outputs:
        source = set(_words(one.source))
        copied += [word in source for word in _words(one.instance.text)]
        expected += [word in source for word in _words(one.reference)]
    share = sum(copied) / max(len(copied), 1)
    allowed = min(1.0, sum(expected) / max(len(expected), 1) + COPIED)
    return Check(
        "words of the source",
        f"{100 * share:.0f} %",
        f"at most {100 * allowed:.0f} %",
        # The words of a text without spaces are not separated; _check_script finds a transcript.
        share <= allowed or target.unit == "char",
        "the model transcribes: wrong instruction, or source and target language exchanged",
    )


def _check_start(outputs: Sequence[Output], step: Seconds) -> Check:
    """Check the share of sentences whose output begins before they end."""
    long = [one.instance for one in outputs if one.instance.source_length > 2 * step]
    early = [one for one in long if one.delays and one.delays[0] < one.source_length]
    return Check(
        "sentences begun before they end",
        f"{len(early)} of {len(long)}",
        f"at least {EARLY * len(long):.1f}".removesuffix(".0"),
        len(early) >= EARLY * len(long),
        "a latency token or m that was not trained; a policy that waits",
    )


def _check_speech(outputs: Sequence[Output]) -> Check:
    """Check that the target speech of each sentence has a plausible duration."""
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
    """Split a text into lower-case words without punctuation at their ends."""
    return [word.strip(".,;:!?¿¡\"'()").lower() for word in text.split()]


def title(system: StreamingSystem, checkpoint: str | None) -> str:
    """Return one line about a system: its step, its size and its weights.

    Args:
        system: system with loaded weights.
        checkpoint: configured checkpoint of the backbone, or None.
    """
    weights = list(system.backbone.parameters())
    step = system.chunk_samples / SAMPLE_RATE
    if not weights:
        return (
            f"{system.name} {system.direction}, {step:.2f} s per step, no weights on this machine"
        )
    kinds = ", ".join(sorted({str(weight.dtype).removeprefix("torch.") for weight in weights}))
    size = sum(weight.numel() for weight in weights) / 1e6
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
        console: console to print to.
    """

    def print_line(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    for number, one in enumerate(outputs, start=1):
        print_line(f"{number}  source     {one.source}")
        print_line(f"   reference  {one.reference}")
        print_line(f"   hypothesis {_timed(one.instance)}")

    seconds = sum(one.instance.source_length for one in outputs)
    computed = sum(chunk.compute for one in outputs for chunk in one.instance.chunks)
    chrf = corpus_chrf(
        [one.instance.text for one in outputs], [[one.reference for one in outputs]]
    ).score
    print_line(
        f"{seconds:.1f} s of speech, {sum(one.turns for one in outputs)} turns, "
        f"{computed:.1f} s of computing, chrF {chrf:.1f} (not checked: compare it with earlier "
        "smoke tests)"
    )

    table = Table("check", "value", "expected", "", box=None)
    for check in checks:
        table.add_row(check.name, check.value, check.expected, "ok" if check.ok else "FAILED")
    console.print(table)

    wrong = [check for check in checks if not check.ok]
    for check in wrong:
        print_line(f"{check.name}: often {check.causes}.")
    print_line(
        f"failed: {len(wrong)} of {len(checks)} checks"
        if wrong
        else f"passed: all {len(checks)} checks"
    )


def _timed(instance: Instance) -> str:
    """Return a text with its delays, such as ``[1.92 s] Wenn die Bank [3.67 s] klein ist,``."""
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
