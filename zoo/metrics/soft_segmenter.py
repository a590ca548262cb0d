"""SoftSegmenter: assigns the units of a talk to its reference segments by word similarity.

Polák et al. (2025), "Better Late Than Never", as implemented in OmniSTEval 0.1.10. The alignment
maximises the sum of the Jaccard similarities of character sets. Gaps cost nothing, and ties are
resolved as MATCH > DELETE > INSERT. For the alignment only, texts are NFKC-normalised, lower-cased
and Moses-tokenised.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.metrics.monotone import align_monotone
from zoo.metrics.moses import moses_tokens

PUNCTUATION = frozenset(".!?,;:-()。！？，；：—（）ー")


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a unit.

    Attributes:
        text: Normalised text.
        owner: Index of the reference segment, or of the unit of the hypothesis.
        first: Whether the token begins its unit.
    """

    text: str
    owner: int
    first: bool


def soft_segment(
    units: Sequence[str], references: Sequence[str], *, language: Language
) -> list[list[int]]:
    """Assign units to reference segments.

    Args:
        units: Units of the hypothesis.
        references: Texts of the reference segments.
        language: Target language.

    Returns:
        For each segment the positions of its units in ascending order.

    Raises:
        ZooError: There is no reference segment.
    """
    if not references:
        raise ZooError("Re-segmentation needs at least one reference segment.")
    reference_units = [
        (segment, unit)
        for segment, text in enumerate(references)
        for unit in _split_reference(text.lower(), language)
    ]
    hypothesis = _tokenise(list(enumerate(units)), language)
    reference = _tokenise(reference_units, language)

    segments: list[list[int]] = [[] for _ in references]
    if not reference:
        segments[0].extend(range(len(units)))
        return segments

    alignment = _align(reference, hypothesis, language)
    for unit, segment in _assign_units(alignment, reference, hypothesis, language):
        segments[segment].append(unit)
    return segments


def _split_reference(text: str, language: Language) -> list[str]:
    """Split a reference text as OmniSTEval does."""
    return text.split() if language.unit == "word" else list(text.replace(" ", "").strip())


def _tokenise(units: Sequence[tuple[int, str]], language: Language) -> list[Token]:
    """Tokenise (owner, unit) pairs."""
    tokens: list[Token] = []
    for owner, unit in units:
        text = unicodedata.normalize("NFKC", unit).lower()
        parts = [] if language.unit == "char" else moses_tokens(text, language.code)
        parts = parts or [text]
        tokens.extend(Token(part, owner, first=index == 0) for index, part in enumerate(parts))
    return tokens


def similarity(reference: str, hypothesis: str, *, exact: bool) -> float:
    """Return the similarity of two tokens.

    Args:
        reference: Token of the reference.
        hypothesis: Token of the hypothesis.
        exact: Whether the similarity is 1 for equal tokens and 0 for others, instead of the Jaccard
            index of the two character sets.

    Returns:
        A value in [0, 1], or -inf if exactly one of the tokens is punctuation.
    """
    if (reference in PUNCTUATION) != (hypothesis in PUNCTUATION):
        return float("-inf")
    if exact:
        return float(reference == hypothesis)
    shared, union = set(reference) & set(hypothesis), set(reference) | set(hypothesis)
    return len(shared) / len(union) if union else 0.0


def _similarity_table(
    reference: Sequence[str], hypothesis: Sequence[str], *, exact: bool
) -> NDArray[np.float64]:
    """Return the (reference, hypothesis) matrix of :func:`similarity` of distinct tokens.

    Shared characters are counted by a matrix product.
    """
    same_kind = np.equal.outer(
        [text in PUNCTUATION for text in reference], [text in PUNCTUATION for text in hypothesis]
    )
    if exact:
        texts = [np.array(tokens, dtype=object) for tokens in (reference, hypothesis)]
        table = np.equal.outer(*texts).astype(np.float64)
    else:
        characters = sorted(set("".join([*reference, *hypothesis])))
        alphabet = {character: index for index, character in enumerate(characters)}
        left, right = _character_sets(reference, alphabet), _character_sets(hypothesis, alphabet)
        shared = left @ right.T
        union = left.sum(1)[:, None] + right.sum(1)[None, :] - shared
        table = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return np.where(same_kind, table, -np.inf)


def _character_sets(texts: Sequence[str], alphabet: dict[str, int]) -> NDArray[np.float64]:
    """Return a (texts, alphabet) matrix with 1 for each character of each text."""
    table = np.zeros((len(texts), len(alphabet)))
    for row, text in enumerate(texts):
        table[row, [alphabet[character] for character in text]] = 1.0
    return table


def _align(
    reference: Sequence[Token], hypothesis: Sequence[Token], language: Language
) -> list[tuple[int, int]]:
    """Return the aligned (reference, hypothesis) positions in order; -1 for a gap."""
    reference_texts, rows = _index_texts(reference)
    hypothesis_texts, columns = _index_texts(hypothesis)
    table = _similarity_table(reference_texts, hypothesis_texts, exact=language.unit == "char")
    return align_monotone((table[row, columns] for row in rows), (len(rows), len(columns)))


def _index_texts(tokens: Sequence[Token]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct texts of the tokens and the index of each token's text."""
    indices: dict[str, int] = {}
    token_indices = [indices.setdefault(token.text, len(indices)) for token in tokens]
    return list(indices), np.array(token_indices, dtype=np.int64)


def _assign_units(
    path: Sequence[tuple[int, int]],
    reference: Sequence[Token],
    hypothesis: Sequence[Token],
    language: Language,
) -> list[tuple[int, int]]:
    """Assign each unit to the segment of its first token.

    Each unaligned token of the hypothesis is assigned to the more similar of two reference tokens:
    the one before the run of unaligned tokens and the one after it. After the first token that is
    assigned to the latter, the rest of the run follows. Punctuation before the first aligned token
    is dropped if it is similar to neither, as in OmniSTEval.

    Returns:
        (unit, segment) pairs.
    """
    exact = language.unit == "char"
    following = _next_references(path)
    owners: list[tuple[int, int]] = []
    previous, joined_until = -1, -1

    for index, (row, column) in enumerate(path):
        if row >= 0:
            owner = previous = row
        elif index < joined_until:
            owner = following[index]
        else:
            text = hypothesis[column].text
            score_before = _similarity_at(reference, previous, text, exact=exact)
            score_after = _similarity_at(reference, following[index], text, exact=exact)
            takes_next = score_after > score_before
            owner = following[index] if takes_next else previous
            joined_until = _run_end(path, index) if takes_next else index
        if column >= 0 and owner >= 0 and hypothesis[column].first:
            owners.append((hypothesis[column].owner, reference[owner].owner))
    return owners


def _similarity_at(reference: Sequence[Token], position: int, text: str, *, exact: bool) -> float:
    """Return the similarity of a text to the reference token at a position; -inf at position -1."""
    if position < 0:
        return float("-inf")
    return similarity(reference[position].text, text, exact=exact)


def _next_references(path: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each step of the path the next aligned reference token; -1 after the last one."""
    following, current = [0] * len(path), -1
    for index in range(len(path) - 1, -1, -1):
        current = path[index][0] if path[index][0] >= 0 else current
        following[index] = current
    return following


def _run_end(path: Sequence[tuple[int, int]], index: int) -> int:
    """Return the end of the run of unaligned hypothesis tokens that contains ``index``."""
    while index < len(path) and path[index][0] < 0:
        index += 1
    return index
