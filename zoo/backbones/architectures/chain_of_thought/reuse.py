"""Speech embeddings of audio that was encoded before, for encoders with independent blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from zoo.backbones.decoding.batches import pick, put
from zoo.base.types import Frames


@dataclass(frozen=True, slots=True)
class EncodedAudio:
    """The audio that was encoded last.

    Attributes:
        features: Encoder input (F, bins).
        speech: Speech embeddings (T, width).
    """

    features: Tensor
    speech: Tensor


class StreamEncoding(Protocol):
    """The state of a stream, as far as it is used here."""

    encoded: EncodedAudio | None


class SpeechEncoder(Protocol):
    """The methods of ``ChainOfThought`` that are used here; see there."""

    @property
    def independent_frames(self) -> Frames | None:
        """Number of feature frames per independent block, if there are such blocks."""

    def embeddings(self, features: int) -> int:
        """Number of speech embeddings of a number of feature frames."""

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Hidden states of the last and of a middle layer for each stream."""

    def project(self, hidden: Tensor) -> Tensor:
        """Speech embeddings of hidden states."""


def encode_changed(
    encoder: SpeechEncoder,
    states: Sequence[StreamEncoding],
    inputs: Sequence[Tensor],
    *,
    nothing: Tensor,
) -> list[Tensor]:
    """Encode the audio after the leading blocks of each stream that have not changed.

    Blocks are compared by their features: a louder sound may change the features of earlier audio.

    Args:
        encoder: The encoder and its projector.
        states: State of each stream; the encoded audio is updated if there are blocks.
        inputs: Encoder input (F, bins) of each stream.
        nothing: (0, width) speech embeddings of audio that is too short for one.

    Returns:
        Speech embeddings (T, width) of each stream.
    """
    block, embeddings = encoder.independent_frames, encoder.embeddings
    known = [_unchanged(*pair, block) for pair in zip(states, inputs, strict=True)]
    new = [features[frames:] for features, frames in zip(inputs, known, strict=True)]
    speech = [nothing] * len(inputs)
    encodable = [index for index, features in enumerate(new) if embeddings(len(features))]
    if encodable:
        hidden, _ = encoder.encode(pick(new, encodable))
        lengths = [len(frames) for frames in hidden]
        put(speech, encodable, encoder.project(torch.cat(hidden)).split(lengths))
    if block is None:
        return speech

    for index, (state, frames) in enumerate(zip(states, known, strict=True)):
        if state.encoded is not None and frames:
            unchanged_speech = state.encoded.speech[: embeddings(frames)]
            speech[index] = torch.cat([unchanged_speech, speech[index]])
        state.encoded = EncodedAudio(inputs[index], speech[index])
    return speech


def equal_rows(before: Tensor, now: Tensor) -> int:
    """Number of leading rows in which two tensors (rows, width) are equal."""
    size = min(len(before), len(now))
    differs = (before[:size] != now[:size]).any(dim=1)
    return int(differs.int().argmax()) if bool(differs.any()) else size


def _unchanged(state: StreamEncoding, features: Tensor, block: Frames | None) -> Frames:
    """Number of leading frames in complete blocks that equal those encoded last."""
    if block is None or state.encoded is None:
        return 0
    return equal_rows(state.encoded.features, features) // block * block
