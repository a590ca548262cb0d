"""From pieces of talks to what a chain of thought is trained on. Runs in a data worker; knows no network."""

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
    """A piece of a talk and what is to be said of it. language: the translation's."""

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
    """Prompts and answers, padded at the end (causal attention needs no mask for that).

    features: (batch, F, bins), as the encoder takes them. input_ids: (batch, L). labels: (batch, L), aligned with
    input_ids (the id to be said *at* a position), -100 without a loss. transcript: (batch, L) bool, the labels of
    transcript and separator; the others are the translation's and its end's.
    """

    features: Tensor
    input_ids: Tensor
    labels: Tensor
    transcript: Tensor


@dataclass(frozen=True, slots=True)
class Collator:
    """Pieces of ONE length in samples to a batch: Phi-4's encoder does not mask padding.

    spectrogram, prepared, embeddings: the backbone's.
    """

    prompt: Prompt
    spectrogram: Spectrogram
    prepared: Callable[[Tensor], Tensor]
    embeddings: Callable[[int], int]

    def __call__(self, pieces: Sequence[Spoken]) -> CotBatch:
        """The loss is on the answer only: transcript, separator, translation, end.

        Raises ZooError for pieces of different lengths.
        """
        waves = [piece.samples() for piece in pieces]
        if len({len(wave) for wave in waves}) != 1:
            raise ZooError("A chain of thought is trained on audio of one length per batch.")
        features = analysed(self.spectrogram, self.prepared, torch.stack(waves))
        heard = self.embeddings(features.shape[1])
        openings = [self.prompt.opening(heard, piece.language) for piece in pieces]
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
        [prepared(spectrogram.look(spectrogram.open(), wave.cpu(), 0)) for wave in waves]
    )
