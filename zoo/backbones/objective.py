"""Base class of the training objectives."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from zoo.backbones.base import Backbone
from zoo.base.talks import Talk
from zoo.data.sampling import Sampler, Sampling


class Objective(nn.Module, ABC):
    """Training objective, which collates examples into batches and computes the losses.

    An objective may have heads that only training needs. The heads are saved in the checkpoints of
    a training and are not exported. An objective of a single backbone is in the folder of the
    backbone.

    Args:
        sampling: Default options of the sampler, for stages without sampler options.
    """

    def __init__(self, sampling: Sampling) -> None:
        super().__init__()
        self.sampling = sampling

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Create heads and label sets. The training calls this method once, before the first batch.

        Args:
            talks: Training talks.
            backbone: Loaded backbone.
            samplers: Samplers of the stages that have this objective.

        Raises:
            ZooError: The objective does not support the backbone, or a talk lacks labels that the
                objective needs.
        """

    @abstractmethod
    def batch(self, examples: Sequence[Any]) -> Any:
        """Collate examples into a batch, in a data worker process.

        Args:
            examples: Examples of the stage's sampler.

        Returns:
            A batch: a tensor or a dataclass, list or dictionary with tensors.
        """

    def tokens(self, batch: Any) -> int:
        """Return the number of positions over which ``loss`` of ``losses`` is the mean.

        The training weights the batches of a step by this number. By default a batch has an
        attribute ``labels``, and all its labels of at least 0 count.
        """
        return int((batch.labels >= 0).sum())

    @abstractmethod
    def losses(self, backbone: Backbone, batch: Any) -> dict[str, Tensor]:
        """Compute the losses of a batch.

        Args:
            backbone: Backbone that is trained.
            batch: Result of ``batch`` on the device of the backbone.

        Returns:
            Scalar tensors by name. The training minimises ``loss`` and logs all scalars.
        """
