"""Transcript and translation of thoughts: what a speech language model is trained for (StreamUni, section 3.2).

Knows neither its batches nor its network.
"""

from collections.abc import Sequence

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought as Network
from zoo.backbones.common.chain_of_thought.data import Collator, CotBatch
from zoo.data.chain_of_thought import Thought
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.objectives.base import Objective


class ChainOfThought(Objective):
    """Cross-entropy on transcript and translation, as the backbone computes it."""

    takes = Thought

    def __init__(self) -> None:
        super().__init__()
        self._collate: Collator | None = None

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Take the backbone's way to make batches. Raises ZooError when it answers in no chain of thought."""
        if not isinstance(backbone, Network):
            raise ZooError(
                f"The chain_of_thought objective trains speech chains of thought, not {type(backbone).__name__}."
            )
        self._collate = backbone.collator()

    def batch(
        self, stretches: Sequence[Thought], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> CotBatch:
        """What the backbone's collator makes of the thoughts."""
        assert self._collate is not None, "prepare comes first"
        return self._collate(stretches, frames)

    def losses(self, backbone: Backbone, batch: CotBatch) -> dict[str, Tensor]:
        """What the backbone's ``forward`` gives."""
        return dict(backbone(batch))
