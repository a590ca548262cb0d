"""Objective for backbones that collate batches and compute teacher-forcing losses themselves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.sampling import Sampler, Sampling


@runtime_checkable
class TeacherForced(Protocol):
    """Backbone with a collator and a forward pass that computes teacher-forcing losses.

    Attributes:
        trains_on: Name of the type of sampler options whose examples the collator accepts, such as
            ``ExcerptConfig``.
    """

    trains_on: ClassVar[str]

    def collator(self) -> Callable[[Sequence[Any]], Any]:
        """Return a picklable function that collates examples into a dataclass with tensors.

        The batch has ``labels``, of which those below 0 have no loss, or ``tokens``, the number of
        positions over which the loss is the mean.
        """

    def __call__(self, batch: Any) -> Mapping[str, Tensor]:
        """Compute scalar losses by name, among them ``loss``, which the training minimises."""


class TeacherForcing(Objective):
    """Objective that returns the losses of the backbone's forward pass.

    Args:
        sampling: Default options of the sampler, of the type ``backbone.trains_on``.
    """

    def __init__(self, *, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._collate: Callable[[Sequence[Any]], Any] | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Store the backbone's collator.

        Args:
            talks: Training talks; not used.
            backbone: Loaded backbone.
            samplers: Samplers of the stages that have this objective; not used.

        Raises:
            ZooError: The backbone has no collator, or the collator accepts examples of another
                type than ``sampling``.
        """
        if not isinstance(backbone, TeacherForced):
            raise ZooError(
                f"Teacher forcing cannot train {type(backbone).__name__}: it has no collator."
            )
        if backbone.trains_on not in {kind.__name__ for kind in type(self.sampling).__mro__}:
            raise ZooError(
                f"{type(backbone).__name__} is trained on examples of {backbone.trains_on}, not of "
                f"{type(self.sampling).__name__}."
            )
        self._collate = backbone.collator()

    def batch(self, examples: Sequence[Any]) -> Any:
        """Collate examples with the backbone's collator."""
        assert self._collate is not None, "prepare comes first"
        return self._collate(examples)

    def tokens(self, batch: Any) -> int:
        """Return ``batch.tokens``, or the number of labels of at least 0.

        Raises:
            ZooError: The batch has neither.
        """
        if hasattr(batch, "tokens"):
            return int(batch.tokens)
        if not hasattr(batch, "labels"):
            raise ZooError(
                f"{type(batch).__name__} needs an attribute tokens, the number of positions over "
                "which the loss is the mean, or an attribute labels."
            )
        return super().tokens(batch)

    def losses(self, backbone: Backbone, batch: Any) -> dict[str, Tensor]:
        """Return the scalars of the backbone's forward pass, ``loss`` included."""
        return dict(backbone(batch))
