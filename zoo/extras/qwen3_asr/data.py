"""Training batches of a recogniser from spoken segments; this code runs in data workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from zoo.backbones.architectures.chain_of_thought.data import ThoughtBatch, ThoughtCollator
from zoo.backbones.excerpt import TrainingExcerpt
from zoo.base.languages import Language
from zoo.base.types import NO_CONTEXT, Context


class SpokenSegment(Protocol):
    """Speech with its transcript, such as a ``Clip`` of the source speech."""

    @property
    def excerpt(self) -> TrainingExcerpt:
        """The part of a talk, whose target is the transcript."""

    @property
    def samples(self) -> Tensor:
        """Audio (n,)."""


@dataclass(frozen=True, slots=True)
class SpokenAnswer:
    """A spoken segment as an answer without a chain of thought: the transcript alone.

    Attributes:
        clip: The segment.
        transcript: Empty, because the answer has one text.
        context: Empty.
    """

    clip: SpokenSegment
    transcript: str = ""
    context: Context = NO_CONTEXT

    @property
    def language(self) -> Language:
        """Language of the speech."""
        return self.clip.excerpt.language

    @property
    def translation(self) -> str:
        """Text of the answer: the transcript."""
        return self.language.join(self.clip.excerpt.target)

    def samples(self) -> Tensor:
        """Audio (n,)."""
        return self.clip.samples


@dataclass(frozen=True, slots=True)
class TranscriptCollator:
    """Builds a batch from spoken segments.

    Attributes:
        collate: Builds a batch from pieces of speech with their answers.
    """

    collate: ThoughtCollator

    def __call__(self, clips: Sequence[SpokenSegment]) -> ThoughtBatch:
        """Build a batch with labels for transcript and end token."""
        return self.collate([SpokenAnswer(clip) for clip in clips])
