"""Word-level alignment of a hypothesis to its reference, for displays; it yields no score.

The texts are compared as BLEU counts them: tokens of sacreBLEU's tokenizer of the language, with
case. A minimum edit alignment (Levenshtein) of the tokens decides for each unit of the hypothesis
whether it is right, wrong or added, and for each unit of the reference whether it is missing. A
unit with several tokens, such as "house,", counts as its first token with a letter or a digit, so a
missing comma makes no word wrong. In languages without spaces, each character is one token.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

from rapidfuzz.distance import Levenshtein

from zoo.base.languages import Language
from zoo.base.types import UnitKind
from zoo.metrics.quality import BLEU

RIGHT, WRONG, ADDED, REPEATED = "=x+r"
MAX_DISTANCE = 20  # units between a repetition and what it repeats
# Least number of consecutive units of a repetition at a distance above 1. A single word
# or pair of characters occurs twice in correct text as well.
RUN: dict[UnitKind, int] = {"word": 2, "char": 4}


@dataclass(frozen=True, slots=True)
class Alignment:
    """How a hypothesis differs from its reference.

    Attributes:
        marks: one character per unit of the hypothesis: ``=`` right, ``x`` wrong (another unit of
            the reference belongs there), ``+`` added, ``r`` repeated (see ``mark_repetitions``).
        missing: for each missing unit of the reference, the number of units of the hypothesis
            before its place, and its index in the reference.
    """

    marks: str
    missing: tuple[tuple[int, int], ...]


def align(hypothesis: Sequence[str], reference: Sequence[str], *, language: Language) -> Alignment:
    """Align the units of a hypothesis to those of its reference.

    Args:
        hypothesis: units of a segment, words or characters.
        reference: units of its reference.
        language: language of both.
    """
    tokens, unit_of, main = _tokens(hypothesis, language)
    wanted, word_of, main_wanted = _tokens(reference, language)
    marks = [ADDED] * len(hypothesis)
    missing: list[tuple[int, int]] = []

    for edit in Levenshtein.opcodes(wanted, tokens):
        for place in range(edit.dest_start, edit.dest_end):
            if place in main and edit.tag != "insert":
                marks[unit_of[place]] = RIGHT if edit.tag == "equal" else WRONG
        for offset, token in enumerate(range(edit.src_start, edit.src_end)):
            place = min(edit.dest_start + offset, edit.dest_end)
            # A word that a comma replaces is missing, for the comma shows no error.
            replaced = edit.tag == "replace" and place in main
            if token in main_wanted and edit.tag != "equal" and not replaced:
                before = unit_of[place] if place < len(tokens) else len(hypothesis)
                inside = 0 < place < len(tokens) and unit_of[place - 1] == before
                missing.append((before + inside, word_of[token]))
    _shift_additions(hypothesis, marks, {place for place, _ in missing})
    return Alignment("".join(marks), tuple(missing))


def _shift_additions(units: Sequence[str], marks: list[str], barriers: AbstractSet[int]) -> None:
    """Move runs of added units to the right where that changes no count of ``marks``.

    Of "in der in der", the first pair is then right and the second one added, hence repeated.

    Args:
        units: units of the hypothesis.
        marks: their marks, which are changed.
        barriers: places of missing units, which a run does not cross.
    """
    start = 0
    while start < len(units):
        end = start
        while end < len(units) and marks[end] == ADDED:
            end += 1
        begin = start
        start = max(end, start + 1)
        while begin < end < len(units) and marks[end] == RIGHT and end not in barriers:
            if units[begin] != units[end]:
                break
            marks[begin], marks[end] = RIGHT, ADDED
            begin, end = begin + 1, end + 1
            start = end


def mark_repetitions(units: Sequence[str], marks: str, *, language: Language) -> str:
    """Return the marks of a stream with wrong and added units as ``r`` where they repeat others.

    A unit is repeated if it equals the unit before it, or if it is part of a run of ``RUN`` units
    that equals the units at most ``MAX_DISTANCE`` before. Case and punctuation are ignored. Units
    that are right stay right.

    Args:
        units: units of the stream, of all segments.
        marks: their marks.
        language: target language.
    """
    plain = ["".join(filter(str.isalnum, unit)).casefold() or unit for unit in units]
    found: set[int] = set()
    for distance in range(1, min(MAX_DISTANCE, len(plain) - 1) + 1):
        needed = 1 if distance == 1 and language.unit == "word" else RUN[language.unit]
        places = range(distance, len(plain))
        equal = {place for place in places if plain[place] == plain[place - distance]}
        for is_equal, group in groupby(places, equal.__contains__):
            run = list(group)
            if is_equal and len(run) >= needed:
                found.update(run)
    return "".join(
        REPEATED if place in found and mark in (WRONG, ADDED) else mark
        for place, mark in enumerate(marks)
    )


def _tokens(
    units: Sequence[str], language: Language
) -> tuple[list[str], list[int], frozenset[int]]:
    """Return the tokens of units, the unit of each token, and the indices of the main tokens."""
    tokens: list[str] = []
    unit_of: list[int] = []
    main: set[int] = set()
    for index, unit in enumerate(units):
        parts, first = _split(unit, language)
        main.add(len(tokens) + first)
        tokens += parts
        unit_of += [index] * len(parts)
    return tokens, unit_of, frozenset(main)


@cache
def _tokenizer(language: Language) -> Callable[[str], str]:
    """Return sacreBLEU's tokenizer of a language."""
    scorer: Any = BLEU(language).scorer  # the base class of sacreBLEU's metrics has no tokenizer
    tokenizer: Callable[[str], str] = scorer.tokenizer
    return tokenizer


@lru_cache(maxsize=100_000)  # words of all streams of a page
def _split(unit: str, language: Language) -> tuple[tuple[str, ...], int]:
    """Return the tokens of a unit, at least one, and the index of the main token."""
    if language.unit == "char":
        return (unit,), 0
    parts = tuple(_tokenizer(language)(unit).split()) or (unit,)
    first = next((i for i, part in enumerate(parts) if any(map(str.isalnum, part))), 0)
    return parts, first
