"""What the collators of several families read of a training example."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from zoo.base.languages import Language
from zoo.base.talks import Talk
from zoo.base.types import Seconds


class TrainingExcerpt(Protocol):
    """A part of a talk and its translation, such as an ``Excerpt``."""

    @property
    def talk(self) -> Talk:
        """The talk."""

    @property
    def start(self) -> Seconds:
        """Start in seconds from the start of the talk."""

    @property
    def end(self) -> Seconds:
        """End in seconds from the start of the talk."""

    @property
    def source(self) -> Sequence[str]:
        """Source words."""

    @property
    def target(self) -> Sequence[str]:
        """Words of the translation."""

    @property
    def language(self) -> Language:
        """Target language."""

    @property
    def num_forced(self) -> int:
        """Number of first target words that are a forced prefix without loss."""

    @property
    def text(self) -> str:
        """The translation."""

    @property
    def prefix(self) -> str:
        """The forced prefix of the translation."""

    @property
    def frames(self) -> Tensor | None:
        """Output (frames, hidden) of a frozen encoder; None: the backbone encodes ``samples``."""

    def samples(self) -> Tensor:
        """Audio (n,)."""
