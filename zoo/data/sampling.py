"""Interfaces that make training examples from talks: passes, samplers and sampler options."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from torch import Tensor

from zoo.base.languages import Language
from zoo.base.talks import Share, Talk
from zoo.base.types import Frames, Samples, Seconds


@dataclass(frozen=True, slots=True)
class Stretches:
    """Lengths of the parts that a talk is divided into (InfiniSST, section 3.3).

    Attributes:
        chunks: Lengths in chunks. All lengths have equal shares of the audio; a repeated length has
            a larger share.
        multipliers: Latency multipliers m, drawn uniformly. A multiplier above the drawn length is
            lowered to the length. The last turn of a length that the multiplier does not divide has
            fewer chunks.
    """

    chunks: Sequence[int] = (1,)
    multipliers: Sequence[int] = (1,)

    def draw(self, random: np.random.Generator) -> tuple[int, int]:
        """Draw a length in chunks and its multiplier."""
        weights = 1 / np.array(self.chunks)  # so that each length has the same share of the audio
        chunks = int(random.choice(list(self.chunks), p=weights / weights.sum()))
        multiplier = min(int(random.choice(list(self.multipliers))), chunks)
        return chunks, multiplier

    @property
    def possible_multipliers(self) -> set[int]:
        """All latency multipliers that ``draw`` may return."""
        return {min(m, chunks) for m in self.multipliers for chunks in self.chunks}


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the talks: every example of a kind, once.

    Attributes:
        positions: (n, ...) array with one row per example: its position in the talks, in the
            coordinates of the sampler, such as talk, first and last sentence.
        seconds: (n,) durations of the examples. A batch has examples of similar durations.
        groups: (n,) integers. The examples of one batch are of one group.
    """

    positions: np.ndarray
    seconds: np.ndarray
    groups: np.ndarray

    def __len__(self) -> int:
        return len(self.positions)


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


EncodeTalks = Callable[[Sequence[Talk]], TalkFrames]  # runs a frozen encoder over whole talks


class Example(Protocol):
    """One example of a training batch."""

    @property
    def seconds(self) -> Seconds:
        """Duration of the audio of the example, in seconds."""


class Sampler(ABC):
    """Lists the examples of each pass over the talks, and makes them.

    A sampler has one or more kinds of examples. All examples of a batch are of one kind.
    """

    @property
    @abstractmethod
    def kinds(self) -> Sequence[float]:
        """Share of the audio of each kind; at least one kind. The shares add up to 1.

        They are shares of the steps as well if the duration of batches is limited, and not their
        number of examples.
        """

    @property
    def parts(self) -> Sequence["Sampler"]:
        """Samplers of single corpora that a mixture consists of; the sampler itself otherwise."""
        return [self]

    def windows(self, kind: int) -> int:
        """Return the number of windows that a pass over a kind is divided into.

        Each window is planned when its turn comes.

        Args:
            kind: Index in ``kinds``.
        """
        return 1

    def window(self, number: int) -> "Sampler":
        """Return the sampler of the talks of one window.

        Args:
            number: Number of the window, counted from 0 over all passes.
        """
        return self

    @abstractmethod
    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """List the examples of one pass, at least one.

        Args:
            kind: Index in ``kinds``.
            random: Only source of randomness; equal generators give equal passes.
        """

    @abstractmethod
    def examples(
        self, kind: int, positions: np.ndarray, random: np.random.Generator
    ) -> Sequence[Example]:
        """Make the examples of one batch.

        Args:
            kind: Index in ``kinds``.
            positions: (m, ...) rows of ``Pass.positions``, of examples of one group.
            random: Only source of randomness, such as the silence before an example.
        """

    def encode(self, encode_talks: EncodeTalks) -> None:
        """Encode the talks with a frozen encoder; later examples contain the encoder frames.

        Args:
            encode_talks: Encodes whole talks, for each latency multiplier that a batch may have.

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

    def for_share(self, share: Share) -> Self:
        """Return the options for a share of a mixture of corpora.

        By default the share has all examples of its talks, and its hours only determine how often
        they are drawn.
        """
        return self

    def for_window(self, windows: int) -> Self:
        """Return the options for each of the windows that a pass is divided into."""
        return self

    def for_development(self) -> Self:
        """Return the options for the loss of the development talks."""
        return self

    @abstractmethod
    def sampler(
        self,
        talks: Sequence[Talk],
        *,
        target: Language,
        chunk_seconds: Seconds,
        stretches: Stretches = Stretches(),
    ) -> Sampler:
        """Create a sampler with these options.

        Args:
            talks: Training talks.
            target: Language of the translations.
            chunk_seconds: Duration of one audio chunk of the streaming system, in seconds.
            stretches: Lengths and latency multipliers of robust segments.

        Raises:
            ZooError: A talk lacks labels that the examples need, such as word times.
        """
