"""Training batches of a chain of thought from pieces of talks; runs in a data worker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from zoo.backbones.common.audio.spectrogram import Spectrogram
from zoo.backbones.common.chain_of_thought.prompt import Prompt
from zoo.backbones.common.teacher_forcing import IGNORED, TensorBatch, pad_ids
from zoo.errors import ZooError
from zoo.languages import Language


class Spoken(Protocol):
    """A piece of a talk with transcript and translation; ``language`` is the translation's."""

    @property
    def transcript(self) -> str: ...

    @property
    def translation(self) -> str: ...

    @property
    def language(self) -> Language: ...

    def samples(self) -> Tensor:
        """(n,) audio."""


@dataclass(slots=True)
class CotBatch(TensorBatch):
    """Prompts and answers, padded at the end (causal attention needs no mask there).

    Attributes:
        features: (batch, F, bins), the encoder's input.
        input_ids: (batch, L).
        labels: (batch, L), the id *at* each position, or ``IGNORED``.
        transcript: (batch, L) bool: labels of transcript and separator; the others are those of the
            translation and its end.
    """

    features: Tensor
    input_ids: Tensor
    labels: Tensor
    transcript: Tensor


@dataclass(frozen=True, slots=True)
class Collator:
    """Pieces of one length in samples to a batch: Phi-4's encoder does not mask padding.

    Attributes:
        prompt: The backbone's.
        spectrogram: The backbone's.
        prepared: Spectrogram frames to the encoder's input.
        embeddings: Number of speech embeddings of so many feature frames.
    """

    prompt: Prompt
    spectrogram: Spectrogram
    prepared: Callable[[Tensor], Tensor]
    embeddings: Callable[[int], int]

    def __call__(self, pieces: Sequence[Spoken]) -> CotBatch:
        """Build a batch; the loss covers the answer: transcript, separator, translation, end.

        Raises:
            ZooError: For pieces of different lengths.
        """
        waves = [piece.samples() for piece in pieces]
        if len({len(wave) for wave in waves}) != 1:
            raise ZooError("A chain of thought is trained on audio of one length per batch.")
        features = analysed(self.spectrogram, self.prepared, torch.stack(waves))
        size = self.embeddings(features.shape[1])
        openings = [self.prompt.opening(size, piece.language) for piece in pieces]
        sources = [self.prompt.transcript(piece.transcript) for piece in pieces]
        targets = [self.prompt.translation(piece.translation) for piece in pieces]
        ids, labels, transcript = [], [], []
        for opening, source, target in zip(openings, sources, targets, strict=True):
            ids.append([*opening, *source, *target])
            labels.append([*[IGNORED] * len(opening), *source, *target])
            transcript.append([*[0] * len(opening), *[1] * len(source), *[0] * len(target)])
        return CotBatch(
            features=features,
            input_ids=pad_ids(ids, self.prompt.end),
            labels=pad_ids(labels, IGNORED),
            transcript=pad_ids(transcript, 0).bool(),
        )


def analysed(
    spectrogram: Spectrogram, prepared: Callable[[Tensor], Tensor], waves: Tensor
) -> Tensor:
    """(batch, n) samples to (batch, F, bins) features, as the encoder takes them."""
    return torch.stack(
        [prepared(spectrogram.compute(spectrogram.open(), wave.cpu(), 0)) for wave in waves]
    )
