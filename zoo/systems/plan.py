"""The contract of a training: what a streaming system asks for in ``trainer.fit``."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from torch import Tensor, nn

if TYPE_CHECKING:
    import lightning
    import torch
    from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig

    from zoo.base.talks import Talk

SystemT = TypeVar("SystemT")


class TrainingPlan(nn.Module, ABC, Generic[SystemT]):
    """A training of a system: ``zoo.training.module.Training``, which a system may not import.

    ``SystemT`` is the type of the system: ``zoo.systems.base.StreamingSystem``.

    It is a module, because objectives may have parameters of their own.

    Attributes:
        is_uniform: Whether all steps train the same parameters by the same objective.
    """

    is_uniform = False

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the plan has its talks."""

    @abstractmethod
    def setup(
        self,
        system: SystemT,
        talks: "Sequence[Talk]",
        device: "torch.device",
        *,
        batches: int = 1,
    ) -> None:
        """Take the training talks and create the network.

        Args:
            system: System to train.
            talks: Training talks.
            device: Device of the training.
            batches: Number of batches per step, over all ranks.
        """

    @abstractmethod
    def loader(self, trainer: "lightning.Trainer") -> Iterable[Any]:
        """Return the loader of the training batches from the Trainer's global step on."""

    @abstractmethod
    def prepare(self, system: SystemT) -> None:
        """Freeze the parameters that are never trained, after the weights are loaded."""

    def complete_checkpoint(self, system: SystemT, checkpoint: dict[str, Any]) -> None:
        """Add what the plan needs to resume to a Lightning checkpoint, before it is written."""
        return

    def check_checkpoint(self, system: SystemT, checkpoint: dict[str, Any]) -> None:
        """Check a Lightning checkpoint and adapt it to this training, before it is restored."""
        return

    @abstractmethod
    def optimizers(self, system: SystemT) -> "OptimizerLRSchedulerConfig":
        """Return the optimizer and the schedule of its learning rate."""

    @abstractmethod
    def begin_batch(self, system: SystemT) -> None:
        """Freeze and unfreeze parameters for the next batch."""

    @abstractmethod
    def loss(self, system: SystemT, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss of a batch, a scalar."""
