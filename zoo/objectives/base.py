"""The contract of an objective: what a training stage optimises."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from zoo.backbones.base import Backbone
from zoo.data.sampling import Sampler, Sampling
from zoo.data.talks import Talk


class Objective(nn.Module, ABC):
    """Collates examples into batches and turns a forward pass into losses.

    An objective may own heads that only training needs; they are saved in the training's
    checkpoints and never exported. A family's own objectives stand in the family's folder.

    Args:
        sampling: The examples that batches are made of, where a stage has no options of its own.
    """

    def __init__(self, sampling: Sampling) -> None:
        super().__init__()
        self.sampling = sampling

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Create heads and label sets; called once, before the first batch.

        Args:
            talks: The training talks.
            backbone: The backbone, loaded.
            samplers: Samplers of the stages that have this objective.

        Raises:
            ZooError: The backbone or the talks lack what the objective needs.
        """

    @abstractmethod
    def batch(self, examples: Sequence[Any]) -> Any:
        """Collate the examples of a batch; runs in a data worker. The batch has a ``to(device)``."""

    @abstractmethod
    def losses(self, backbone: Backbone, batch: Any) -> dict[str, Tensor]:
        """Scalars by name; ``loss`` is the one to minimise."""
