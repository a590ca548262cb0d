"""Gives the units of one long hypothesis to the reference segments by likeness of words (SoftSegmenter). Knows no time.

Polák et al. (2025), "Better Late Than Never", as OmniSTEval 0.1.10 runs it: the alignment that maximises the summed
Jaccard likeness of character sets, gaps free, ties MATCH > DELETE > INSERT; texts are NFKC-normalised, lower-cased and
Moses-tokenised for matching only.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoo.languages import Language
from zoo.metrics.moses import moses_tokens

PUNCTUATION = frozenset(".!?,;:-()。！？，；：—（）ー")
MATCH, DELETE, INSERT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a unit. owner: number of its reference segment, or of its unit in the hypothesis. first: begins it."""

    text: str
    owner: int
    first: bool


def soft_segment(
    units: Sequence[str], references: Sequence[str], *, language: Language
) -> list[list[int]]:
    """Per reference segment the positions in ``units`` that belong to it, in order."""
    segments: list[list[int]] = [[] for _ in references]
    hypothesis = _tokens(list(enumerate(units)), language)
    reference = _tokens(
        [(i, u) for i, text in enumerate(references) for u in _units(text.lower(), language)],
        language,
    )
    if not reference:
        segments[0].extend(range(len(units)))
        return segments
    path = _path(reference, hypothesis, language)
    for position, segment in _owners(path, reference, hypothesis, language):
        segments[segment].append(position)
    return segments


def _units(text: str, language: Language) -> list[str]:
    return text.split() if language.unit == "word" else list(text.replace(" ", "").strip())


def _tokens(units: Sequence[tuple[int, str]], language: Language) -> list[Token]:
    tokens: list[Token] = []
    for owner, unit in units:
        text = unicodedata.normalize("NFKC", unit).lower()
        pieces = (
            [text] if language.unit == "char" else (moses_tokens(text, language.code) or [text])
        )
        tokens.extend(Token(piece, owner, first=index == 0) for index, piece in enumerate(pieces))
    return tokens


def similarity(reference: str, hypothesis: str, *, exact: bool) -> float:
    """Jaccard index of the two character sets (exact: 1 or 0); -inf between punctuation and anything else."""
    if (reference in PUNCTUATION) != (hypothesis in PUNCTUATION):
        return float("-inf")
    if exact:
        return float(reference == hypothesis)
    shared, every = len(set(reference) & set(hypothesis)), len(set(reference) | set(hypothesis))
    return shared / every if every else 0.0


def _likeness_table(
    reference: Sequence[str], hypothesis: Sequence[str], *, exact: bool
) -> NDArray[np.float64]:
    """(distinct reference, distinct hypothesis) :func:`likeness`, by counting shared characters as a matrix product."""
    marks = np.equal.outer(
        [text in PUNCTUATION for text in reference], [text in PUNCTUATION for text in hypothesis]
    )
    if exact:
        table = np.equal.outer(
            np.array(reference, dtype=object), np.array(hypothesis, dtype=object)
        ).astype(np.float64)
    else:
        alphabet = {
            char: index
            for index, char in enumerate(sorted(set("".join([*reference, *hypothesis]))))
        }
        left, right = _characters(reference, alphabet), _characters(hypothesis, alphabet)
        shared = left @ right.T
        every = left.sum(1)[:, None] + right.sum(1)[None, :] - shared
        table = np.divide(shared, every, out=np.zeros_like(shared), where=every > 0)
    return np.where(marks, table, -np.inf)


def _characters(texts: Sequence[str], alphabet: dict[str, int]) -> NDArray[np.float64]:
    table = np.zeros((len(texts), len(alphabet)))
    for row, text in enumerate(texts):
        table[row, [alphabet[char] for char in text]] = 1.0
    return table


def _path(
    reference: Sequence[Token], hypothesis: Sequence[Token], language: Language
) -> list[tuple[int, int]]:
    """Aligned (reference, hypothesis) positions from first to last; -1 for a gap.

    Gaps cost nothing, so a row of the table is the running maximum of its match and delete candidates.
    """
    rows, columns = [_numbered(tokens) for tokens in (reference, hypothesis)]
    table = _likeness_table(rows[0], columns[0], exact=language.unit == "char")
    best = np.zeros(len(hypothesis) + 1)
    steps = np.full((len(reference) + 1, len(hypothesis) + 1), INSERT, dtype=np.uint8)
    for index, row in enumerate(rows[1], start=1):
        match, delete = best[:-1] + table[row, columns[1]], best[1:]
        current = np.concatenate([[0.0], np.maximum.accumulate(np.maximum(match, delete))])
        insert = current[:-1]
        steps[index, 1:] = np.where(
            (match >= delete) & (match >= insert), MATCH, np.where(delete >= insert, DELETE, INSERT)
        )
        steps[index, 0] = DELETE
        best = current
    return _traced(steps)


def _numbered(tokens: Sequence[Token]) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct texts, and the number of each token's text."""
    numbers: dict[str, int] = {}
    return_index = [numbers.setdefault(token.text, len(numbers)) for token in tokens]
    return list(numbers), np.array(return_index, dtype=np.int64)


def _traced(steps: NDArray[np.uint8]) -> list[tuple[int, int]]:
    row, column = steps.shape[0] - 1, steps.shape[1] - 1
    path: list[tuple[int, int]] = []
    while row > 0 or column > 0:
        step = steps[row, column]
        path.append((row - 1 if step != INSERT else -1, column - 1 if step != DELETE else -1))
        row -= step != INSERT
        column -= step != DELETE
    path.reverse()
    return path


def _owners(
    path: Sequence[tuple[int, int]],
    reference: Sequence[Token],
    hypothesis: Sequence[Token],
    language: Language,
) -> list[tuple[int, int]]:
    """(unit, segment) for each unit's first token. A run of unaligned tokens goes to the like-minded neighbour.

    A token decides between the reference token before its run and the one after it; once it is the one after, the rest
    of the run follows. Punctuation before the first aligned token that is like nothing is dropped (as in OmniSTEval).
    """
    exact = language.unit == "char"
    following = _next_references(path)
    owners: list[tuple[int, int]] = []
    before, joined_until = -1, -1
    for index, (row, column) in enumerate(path):
        if row >= 0:
            owner = before = row
        elif index < joined_until:
            owner = following[index]
        else:
            scores = [
                similarity(reference[other].text, hypothesis[column].text, exact=exact)
                if other >= 0
                else float("-inf")
                for other in (before, following[index])
            ]
            takes_next = scores[1] > scores[0]
            owner = following[index] if takes_next else before
            joined_until = _run_end(path, index) if takes_next else index
        if column >= 0 and owner >= 0 and hypothesis[column].first:
            owners.append((hypothesis[column].owner, reference[owner].owner))
    return owners


def _next_references(path: Sequence[tuple[int, int]]) -> list[int]:
    following, current = [0] * len(path), -1
    for index in range(len(path) - 1, -1, -1):
        current = path[index][0] if path[index][0] >= 0 else current
        following[index] = current
    return following


def _run_end(path: Sequence[tuple[int, int]], index: int) -> int:
    while index < len(path) and path[index][0] < 0:
        index += 1
    return index
