"""Assigns the units of a talk to its reference segments by their meaning.

An encoder gives each word of the hypothesis and of the references a vector that depends on the
words around it. Words are aligned in order, such that the sum of their similarities is largest and
gaps cost nothing: the alignment of SoftSegmenter (Polák et al., 2025), with the vectors of SimAlign
(Jalili Sabet et al., 2020) instead of spelling. A similarity is the cosine of two vectors minus the
mean cosine of all pairs of the talk, because vectors of unrelated words are similar, too.

Paraphrases keep their segment, and a sentence that the system left out takes fewer words of its
neighbours. Case and punctuation are not needed. Xue et al. (2026) assign the sentences of target
speech by embeddings of whole sentences (SEGALE), which needs the punctuation of the recogniser.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.metrics.monotone import align_monotone

if TYPE_CHECKING:
    import torch

Vectors = NDArray[np.float32]

BLOCK = 256  # words of the reference whose similarities are computed at once


class WordEncoder(Protocol):
    """An encoder of words in their context.

    Attributes:
        signature: The encoder in signatures of scores.
    """

    @property
    def signature(self) -> str:
        """The encoder in signatures of scores."""

    def check(self) -> None:
        """Raise ZooError if the encoder is missing."""

    def load(self, device: "torch.device | None" = None) -> None:
        """Load the weights; None: to the CPU. Raises ZooError if they are missing or damaged."""

    def vectors(self, words: Sequence[str]) -> Vectors:
        """Return the unit vectors (words, width) of a text; zero for words that it cannot read."""


def meaning_segment(
    units: Sequence[str], references: Sequence[str], *, language: Language, encoder: WordEncoder
) -> list[list[int]]:
    """Assign units to reference segments.

    Args:
        units: Units of the hypothesis.
        references: Texts of the reference segments.
        language: Target language.
        encoder: Encoder of words of this language.

    Returns:
        For each segment the positions of its units in ascending order. Every unit has a segment,
        and the segments of the units do not decrease.

    Raises:
        ZooError: There is no reference segment.
    """
    if not references:
        raise ZooError("Re-segmentation needs at least one reference segment.")
    words = [language.units(text) for text in references]
    owners = np.repeat(np.arange(len(words)), [len(segment) for segment in words])
    segments: list[list[int]] = [[] for _ in references]
    if not units or not owners.size:
        segments[0].extend(range(len(units)))
        return segments

    reference = encoder.vectors([word for segment in words for word in segment])
    hypothesis = encoder.vectors(units)
    path = align_monotone(_similarities(reference, hypothesis), (len(reference), len(hypothesis)))
    aligned = np.full(len(units), -1)
    for row, column in path:
        if row >= 0 and column >= 0:
            aligned[column] = owners[row]

    means = np.zeros((len(references), reference.shape[1]), np.float32)
    np.add.at(means, owners, reference)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    for unit, segment in enumerate(_fill_gaps(aligned, hypothesis @ means.T)):
        segments[segment].append(unit)
    return segments


def _similarities(reference: Vectors, hypothesis: Vectors) -> Iterator[Vectors]:
    """Yield for each word of the reference its similarities to those of the hypothesis."""
    mean = reference.mean(axis=0) @ hypothesis.mean(axis=0)
    for start in range(0, len(reference), BLOCK):
        yield from reference[start : start + BLOCK] @ hypothesis.T - mean


def _fill_gaps(aligned: NDArray[np.int64], affinity: Vectors) -> list[int]:
    """Return the segment of every unit.

    Each run of unaligned units is divided between the segments from that of the unit before it to
    that of the unit after it, such that the sum of the affinities is largest.

    Args:
        aligned: Segment of each unit; -1: the unit is not aligned.
        affinity: Similarity (units, segments) of each unit to the mean of each segment.
    """
    units, count = affinity.shape
    filled: list[int] = aligned.tolist()
    start = 0
    while start < units:
        end = start + 1
        if filled[start] < 0:
            while end < units and filled[end] < 0:
                end += 1
            first = filled[start - 1] if start else 0
            last = filled[end] if end < units else count - 1
            best = _divide(affinity[start:end, first : last + 1])
            filled[start:end] = [first + segment for segment in best]
        start = end
    return filled


def _divide(affinity: Vectors) -> list[int]:
    """Return the non-decreasing segments of units whose affinities have the largest sum."""
    count = affinity.shape[1]
    best = np.zeros(count)
    previous: list[NDArray[np.int64]] = []
    for row in affinity:
        reached = np.maximum.accumulate(best)
        # the position at which the running maximum was reached
        previous.append(np.maximum.accumulate(np.where(best == reached, np.arange(count), 0)))
        best = reached + row
    segment = int(best.argmax())
    segments: list[int] = []
    for origin in reversed(previous):
        segments.append(segment)
        segment = int(origin[segment])
    segments.reverse()
    return segments
