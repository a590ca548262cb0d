"""Teacher forcing: batches by the backbone's collator, losses by its forward pass."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.data.sampling import Sampler, Sampling
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.objectives.base import Objective


@runtime_checkable
class TeacherForced(Protocol):
    """A backbone that is trained by its own collator and forward pass."""

    trains_on: ClassVar[type[Sampling]]  # options of the examples that its collator takes

    def collator(self) -> Callable[[Sequence[Any]], Any]:
        """Examples to a batch with ``to(device)``; picklable, for it runs in a data worker."""

    def __call__(self, batch: Any) -> Mapping[str, Tensor]:
        """Scalars by name; ``loss`` is the one to minimise."""


class TeacherForcing(Objective):
    """The losses that a backbone computes in its own forward pass."""

    def __init__(self, *, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._collate: Callable[[Sequence[Any]], Any] | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take the backbone's collator.

        Raises ZooError for a backbone that has none or that is trained on other examples.
        """
        if not isinstance(backbone, TeacherForced):
            raise ZooError(
                f"Teacher forcing cannot train {type(backbone).__name__}: it has no collator."
            )
        if not isinstance(self.sampling, backbone.trains_on):
            raise ZooError(
                f"{type(backbone).__name__} is trained on examples of {backbone.trains_on.__name__}, "
                f"not of {type(self.sampling).__name__}."
            )
        self._collate = backbone.collator()

    def batch(self, examples: Sequence[Any]) -> Any:
        """The backbone's collator on the examples."""
        assert self._collate is not None, "prepare comes first"
        return self._collate(examples)

    def losses(self, backbone: Backbone, batch: Any) -> dict[str, Tensor]:
        """The result of the backbone's forward pass."""
        return dict(backbone(batch))
