"""Interfaces that draw training examples from talks: batch shapes, samplers and sampler options."""

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
    """Size of one batch; all ranks of a training step have the same shape.

    A robust segment (section 3.3 of the InfiniSST paper) is an example of consecutive audio chunks
    of a whole talk, silence included.

    Attributes:
        seconds: Total audio of the batch, in seconds.
        examples: Maximum number of examples in the batch. None sets no maximum.
        chunks: Length of each robust segment, in chunks of the system.
        multiplier: Latency multiplier m of the batch, a divisor of ``chunks``.
        choice: Random number, uniform in [0, 1), that selects the kind of the examples.
    """

    seconds: Seconds
    examples: int | None = None
    chunks: int = 1
    multiplier: int = 1
    choice: float = 0.0

    def count(self, length: Seconds) -> int:
        """Return the number of examples of ``length`` seconds in the batch, at least 1."""
        count = max(1, round(self.seconds / length))
        return count if self.examples is None else min(count, self.examples)


class TalkFrames(Protocol):
    """Outputs of a frozen encoder for whole talks.

    Attributes:
        frame_samples: Number of audio samples per encoder frame.
    """

    frame_samples: Samples

    def between(
        self, talk: Talk, first: Frames, last: Frames, multiplier: int | None = None
    ) -> Tensor:
        """Return consecutive encoder frames of a talk.

        Args:
            talk: Talk that was encoded.
            first: Index of the first frame.
            last: Index after the last frame.
            multiplier: Latency multiplier of the encoder block. None selects the only multiplier
                that the talks were encoded with.

        Returns:
            (last - first, hidden) float32 frames.
        """


@runtime_checkable
class TalkEncoder(Protocol):
    """Backbone that can encode whole talks once, before training with a frozen encoder."""

    def encode_talks(
        self, talks: Sequence[Talk], *, multipliers: Collection[int], device: torch.device
    ) -> TalkFrames:
        """Encode whole talks.

        Args:
            talks: Talks to encode.
            multipliers: Latency multipliers m to encode the talks with; an encoder block has m
                chunks.
            device: Device to encode on.

        Raises:
            ZooError: The configured encoder cannot encode whole talks.
        """


class Sampler(ABC):
    """Draws the examples of a batch from talks."""

    @abstractmethod
    def batch(self, random: np.random.Generator, shape: BatchShape) -> Sequence[Any]:
        """Draw the examples of one batch.

        Args:
            random: Only source of randomness; equal generators give equal examples.
            shape: Size of the batch.
        """

    def encode(
        self, encoder: TalkEncoder, *, multipliers: Collection[int], device: torch.device
    ) -> None:
        """Encode the talks with a frozen encoder; later examples contain the encoder frames.

        Args:
            encoder: Backbone whose encoder is frozen.
            multipliers: Latency multipliers m that a batch may have.
            device: Device to encode on.

        Raises:
            ZooError: The configured encoder cannot encode whole talks.
        """
        raise NotImplementedError(f"{type(self).__name__} draws no encoded examples.")


class Sampling(ABC):
    """Options of a sampler.

    Attributes:
        encoded: Whether examples contain the outputs of a frozen encoder instead of audio.
    """

    encoded: bool = False

    @abstractmethod
    def sampler(
        self, talks: Sequence[Talk], *, target: Language, chunk_seconds: Seconds
    ) -> Sampler:
        """Create a sampler with these options.

        Args:
            talks: Training talks.
            target: Language of the translations.
            chunk_seconds: Duration of one audio chunk of the streaming system, in seconds.

        Raises:
            ZooError: A talk lacks labels that the examples need, such as word times.
        """
