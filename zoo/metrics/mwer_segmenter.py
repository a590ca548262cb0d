"""Re-segmentation by minimum WER: assigns the units of a talk to its reference segments.

Matusov et al. (2005), "Evaluating Machine Translation Output with Automatic Sentence Segmentation",
through the package ``mweralign``. The package lower-cases its input, so each distinct token is
replaced by a number. Its version affects scores and is part of every signature.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, whitespace

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import UnitKind
from zoo.metrics.rules import Rules

LONG_WORK = 10**9  # products of words that mweralign compares: more than ten seconds

logger = logging.getLogger(__name__)

# mweralign lower-cases ASCII letters only.
FOLDED = str.maketrans(ascii_uppercase, ascii_lowercase)
ASCII_SPACE = str.maketrans(dict.fromkeys(whitespace, " "))


def mwer_segment(
    units: Sequence[str], references: Sequence[str], *, language: Language, rules: Rules
) -> list[range]:
    """Assign units to reference segments.

    Args:
        units: Units of the hypothesis.
        references: Texts of the reference segments.
        language: Target language.
        rules: Counting rules of the evaluation tool.

    Returns:
        For each segment the range of its units; the ranges are contiguous and cover all units.

    Raises:
        ZooError: There is no reference segment, or mweralign lost words.
    """
    in_runs = rules.latin_runs and language.unit == "char"
    groups = _latin_runs(units) if in_runs else [(unit,) for unit in units]
    tokens = ["".join(group) for group in groups]
    sentences = [_reference_tokens(text, unit=language.unit, rules=rules) for text in references]
    counts = _align(tokens, sentences, cased=rules.cased)

    bounds, group_end, unit_end = [0], 0, 0
    for count in counts:
        unit_end += sum(len(group) for group in groups[group_end : group_end + count])
        group_end += count
        bounds.append(unit_end)
    return [range(start, end) for start, end in pairwise(bounds)]


def _reference_tokens(text: str, *, unit: UnitKind, rules: Rules) -> list[str]:
    """Split a reference text into the tokens that mweralign aligns."""
    if unit == "char" and rules.latin_runs:
        return ["".join(group) for group in _latin_runs(text)]
    if rules.ascii_space:
        words = [word for word in text.translate(ASCII_SPACE).split(" ") if word]
    else:
        words = text.split()
    return words if unit == "word" else list("".join(words))


def _latin_runs(units: Sequence[str]) -> list[tuple[str, ...]]:
    """Group consecutive characters up to U+00FF, spaces included; others form groups of one."""
    runs: list[tuple[str, ...]] = []
    for latin, group in groupby(units, key=lambda unit: max(unit) <= "\u00ff"):
        members = tuple(group)
        runs.extend([members] if latin else [(member,) for member in members])
    return runs


def _align(tokens: Sequence[str], sentences: Sequence[Sequence[str]], *, cased: bool) -> list[int]:
    """Return the number of tokens assigned to each sentence."""
    if not sentences:
        raise ZooError("Re-segmentation needs at least one reference segment.")
    if not tokens or not any(sentences):  # mweralign crashes without any word
        return [len(tokens), *[0] * (len(sentences) - 1)]

    num_words = sum(map(len, sentences))
    if len(tokens) * num_words >= LONG_WORK:
        logger.info(
            "Assigning %d words to segments of %d words: the time grows with the product, to "
            "minutes from 100,000 words on.",
            len(tokens),
            num_words,
        )
    numbers: dict[str, str] = {}

    def number(token: str) -> str:
        return numbers.setdefault(token if cased else token.translate(FOLDED), str(len(numbers)))

    references = "\n".join(" ".join(number(token) for token in sentence) for sentence in sentences)
    hypothesis = " ".join(number(token) for token in tokens)

    counts = [len(line.split()) for line in _mweralign(references, hypothesis).split("\n")]
    counts += [0] * (len(sentences) - len(counts))  # mweralign drops an empty last reference
    if len(counts) != len(sentences) or sum(counts) != len(tokens):
        raise ZooError(
            f"mweralign returned {len(counts)} segments for {len(sentences)} or lost words; check "
            f"that version 1.4.1 is installed."
        )
    return counts


def _mweralign(references: str, hypothesis: str) -> str:
    """Call mweralign without its side effects.

    Its import configures the root logger, and its C++ code prints to stderr.
    """
    handlers = list(logging.root.handlers)
    level = logging.root.level
    from mweralign import MwerAlign

    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    with _quiet_stderr():
        return str(MwerAlign().align(references, hypothesis))


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Discard what the process prints to stderr, also from C++ code."""
    saved = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
