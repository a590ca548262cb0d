"""The contract for training batches: options, samplers and outputs of a frozen encoder."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from zoo.data.talks import Talk
from zoo.languages import Language
from zoo.types import Frames, Samples, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """The size of one batch, the same on all ranks of a step.

    Attributes:
        seconds: Audio of the batch.
        examples: Most examples of the batch; None: as many as ``seconds`` holds.
        chunks: Length of a robust segment, in chunks of the system.
        multiplier: Latency multiplier m of the batch; it divides ``chunks``.
        choice: Uniform in [0, 1): chooses between kinds of examples.
    """

    seconds: Seconds
    examples: int | None = None
    chunks: int = 1
    multiplier: int = 1
    choice: float = 0.0

    def count(self, length: Seconds) -> int:
        """How many examples of ``length`` seconds the batch has, at least one."""
        count = max(1, round(self.seconds / length))
        return count if self.examples is None else min(count, self.examples)


class TalkFrames(Protocol):
    """Outputs of a frozen encoder on whole talks."""

    frame_samples: Samples  # per frame

    def between(
        self, talk: Talk, first: Frames, last: Frames, multiplier: int | None = None
    ) -> Tensor:
        """(last - first, hidden) float32 frames; multiplier: of the block (None: the only one)."""


@runtime_checkable
class TalkEncoder(Protocol):
    """A backbone whose encoder can be run once over whole talks, before it is trained on."""

    def encode_talks(
        self, talks: Sequence[Talk], *, multipliers: Collection[int], device: torch.device
    ) -> TalkFrames:
        """Encode whole talks; raises ZooError for an encoder that cannot."""


class Sampler(ABC):
    """Draws the examples of a batch from talks."""

    @abstractmethod
    def batch(self, random: np.random.Generator, shape: BatchShape) -> Sequence[Any]:
        """Examples of one batch, a pure function of the generator and the shape."""

    def encode(
        self, encoder: TalkEncoder, *, multipliers: Collection[int], device: torch.device
    ) -> None:
        """Encode the talks; examples carry the encoder's frames from here on."""
        raise NotImplementedError(f"{type(self).__name__} draws no encoded examples.")


class Sampling(ABC):
    """Options of a sampler. encoded: examples carry the outputs of a frozen encoder."""

    encoded: bool = False

    @abstractmethod
    def sampler(
        self, talks: Sequence[Talk], *, target: Language, chunk_seconds: Seconds
    ) -> Sampler:
        """A sampler of these talks.

        Args:
            talks: The training talks.
            target: The language of the translations.
            chunk_seconds: Audio of one chunk of the system that streams.

        Raises:
            ZooError: A talk lacks what the examples need.
        """
