"""Training batches of a chain of thought from pieces of talks; this code runs in data workers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from zoo.backbones.architectures.chain_of_thought.prompt import ThoughtPrompt
from zoo.backbones.decoding.teacher_forcing import IGNORED, pad_ids
from zoo.backbones.encoders.audio.spectrogram import Spectrogram, encoder_inputs
from zoo.base.languages import Language
from zoo.base.types import Context


class Piece(Protocol):
    """A piece of speech with its answer, such as a ``SpeechChainOfThought``."""

    @property
    def language(self) -> Language:
        """Target language."""

    @property
    def transcript(self) -> str:
        """Source text."""

    @property
    def translation(self) -> str:
        """Target text."""

    @property
    def context(self) -> Context:
        """Terms in the prompt."""

    def samples(self) -> Tensor:
        """Audio (n,)."""


@dataclass(slots=True)
class ThoughtBatch:
    """Prompts and answers, padded at the end (causal attention needs no mask there).

    Attributes:
        features: Encoder input (F, bins) of each row.
        input_ids: Token ids (batch, L) of prompts and answers.
        labels: Labels (batch, L): the id *at* each position of an answer, ``IGNORED`` elsewhere.
        transcript: Mask (batch, L), True at the ids of transcript and separator. Labelled positions
            where the mask is False hold the translation and its end token.
    """

    features: list[Tensor]
    input_ids: Tensor
    labels: Tensor
    transcript: Tensor


@dataclass(frozen=True, slots=True)
class ThoughtCollator:
    """Builds a batch from pieces of talks.

    The audio is not padded, because the encoder of Phi-4-Multimodal does not mask padding.

    Attributes:
        prompt: Builds the token ids of prompts and answers.
        spectrogram: Computes the feature frames of the backbone.
        prepared: Converts spectrogram frames (F, bins) to encoder input.
        embeddings: Returns the number of speech embeddings for a number of feature frames.
    """

    prompt: ThoughtPrompt
    spectrogram: Spectrogram
    prepared: Callable[[Tensor], Tensor]
    embeddings: Callable[[int], int]

    def __call__(self, pieces: Sequence[Piece]) -> ThoughtBatch:
        """Build a batch with labels for transcript, separator, translation and end token."""
        features = encoder_inputs(
            self.spectrogram, self.prepared, [piece.samples() for piece in pieces]
        )

        input_ids = []
        labels = []
        transcript_mask = []
        for piece, frames in zip(pieces, features, strict=True):
            opening = self.prompt.opening(
                self.embeddings(len(frames)), piece.language, piece.context
            )
            source = self.prompt.transcript(piece.transcript)
            target = self.prompt.translation(piece.translation)
            input_ids.append([*opening, *source, *target])
            labels.append([*[IGNORED] * len(opening), *source, *target])
            transcript_mask.append([*[0] * len(opening), *[1] * len(source), *[0] * len(target)])

        return ThoughtBatch(
            features=features,
            input_ids=pad_ids(input_ids, self.prompt.end),
            labels=pad_ids(labels, IGNORED),
            transcript=pad_ids(transcript_mask, 0).bool(),
        )
