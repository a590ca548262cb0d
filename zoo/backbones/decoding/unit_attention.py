"""Cross-attention that aligns speech units with text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

from torch import Tensor

from zoo.backbones.base import Units
from zoo.backbones.decoding.alignment import AlignmentConfig, Heads
from zoo.base.errors import ZooError, check_choice
from zoo.streaming.session import SpeechRequest

UnitQuery = Literal["predicting", "own"]


@dataclass(frozen=True, slots=True)
class UnitAttention:
    """Which cross-attention of a text-to-unit decoder aligns units with text.

    Attributes:
        layer: Index of a layer, whose heads are averaged. None: all layers. Ignored with ``heads``.
        heads: Pairs of a layer and a head that are averaged. None: the heads of ``layer``.
        query: Decoder position whose attention is that of a unit: ``predicting``, the position that
            predicts the unit, or ``own``, the position whose input is the unit.
        average: Whether the heads are averaged.
    """

    layer: int | None = None
    heads: Sequence[Sequence[int]] | None = None
    query: UnitQuery = "predicting"
    average: bool = True

    def __post_init__(self) -> None:
        """Raises ZooError for an unknown query and for heads that are no pairs."""
        check_choice("backbone.unit_query", self.query, get_args(UnitQuery))
        pairs = self.heads
        if pairs is not None and (not pairs or any(isinstance(one, int) for one in pairs)):
            raise ZooError(
                f"backbone.unit_heads must be null or pairs of a layer and a head, not {pairs}."
            )

    def chosen(self, *, layers: int, heads: int) -> Heads:
        """Return the heads by layer.

        Args:
            layers: Number of layers of the text-to-unit decoder.
            heads: Number of heads per layer.

        Raises:
            ZooError: If a layer or head does not exist.
        """
        if self.heads is not None:
            return AlignmentConfig(heads=self.heads).chosen(layers=layers, heads=heads)
        if self.layer is None:
            return dict.fromkeys(range(layers))
        if not 0 <= self.layer < layers:
            raise ZooError(
                f"The text-to-unit decoder has the layers 0 to {layers - 1}, not {self.layer}."
            )
        return {self.layer: None}

    def of_units(self, rows: Tensor, *, prompt: int, units: int) -> Tensor:
        """Select the attention of units.

        Args:
            rows: (prompt + n, heads, positions) attention of the decoder inputs, n >= units. The
                last id of the prompt predicts the first unit.
            prompt: Number of ids before the units.
            units: Number of units.

        Returns:
            (units, positions) weights; (units, heads, positions) without ``average``.
        """
        first = prompt - 1 if self.query == "predicting" else prompt
        selected = rows[first : first + units]
        return selected.mean(dim=1) if self.average else selected


@runtime_checkable
class UnitAlignment(Protocol):
    """A backbone with a text-to-unit decoder whose attention aligns units with text.

    Attributes:
        unit_attention: The attention that ``generate_units`` returns.
    """

    unit_attention: UnitAttention

    def unit_attention_shape(self) -> tuple[int, int]:
        """Return the number of layers of the text-to-unit decoder, and of heads per layer."""

    def generate_units(self, requests: Sequence[SpeechRequest], *, close: bool) -> list[Units]:
        """Generate the units of each stream's kept and new text; see ``Speaking``."""
