"""What training optimises: makes its own batches from stretches of talks and turns a forward pass into losses."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from zoo.backbones.base import Backbone
from zoo.data.robust_segments import Stretch
from zoo.data.talks import Talk


class Objective(nn.Module, ABC):
    """An objective may own heads that only training needs; they are never exported.

    takes: what its batches are made of: stretches, excerpts, thoughts or clips.
    """

    takes: ClassVar[type] = Stretch

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """See the training talks once, before the first batch (label sets, heads)."""

    @abstractmethod
    def batch(
        self, stretches: Sequence[Any], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> Any:
        """Collate what it ``takes``; runs in a data worker.

        frames: (frames, hidden) each, where the encoder has been run.
        """

    @abstractmethod
    def losses(self, backbone: Backbone, batch: Any) -> dict[str, Tensor]:
        """Scalars by name; ``loss`` is the one to minimise."""
