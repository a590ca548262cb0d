"""Translation of whole excerpts: what an offline model is trained for. Knows neither its batches nor its network."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.data.excerpts import Excerpt
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.objectives.base import Objective


@runtime_checkable
class OfflineTrained(Protocol):
    """A backbone that can be trained on excerpts."""

    def collator(self) -> Callable[..., Any]:
        """Excerpts to a batch with ``to(device)``; picklable, for it runs in a data worker.

        A second argument, where ``training.excerpts.encoded`` is true: what the encoder heard, (frames, hidden) each.
        """

    def __call__(self, batch: Any) -> Mapping[str, Tensor]:
        """Teacher forcing: scalars by name, among them ``loss`` and ``token_accuracy``."""


class Offline(Objective):
    """Cross-entropy on the translation, as the backbone computes it."""

    takes = Excerpt

    def __init__(self) -> None:
        super().__init__()
        self._collate: Callable[..., Any] | None = None

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Take the backbone's way to make batches. Raises ZooError when it has none."""
        if not isinstance(backbone, OfflineTrained):
            raise ZooError(
                f"The offline objective cannot train {type(backbone).__name__}: it takes no excerpts."
            )
        self._collate = backbone.collator()

    def batch(
        self, stretches: Sequence[Excerpt], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> Any:
        """What the backbone's collator makes of the excerpts."""
        assert self._collate is not None, "prepare comes first"
        return self._collate(stretches) if frames is None else self._collate(stretches, frames)

    def losses(self, backbone: Backbone, batch: Any) -> dict[str, Tensor]:
        """What the backbone's ``forward`` gives."""
        return dict(backbone(batch))
