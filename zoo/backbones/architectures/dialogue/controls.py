"""Controls of what a dialogue emits, set at inference."""

from dataclasses import dataclass

from zoo.base.errors import check_numbers


@dataclass(frozen=True, slots=True)
class EmissionControls:
    """Controls of the choice between words and ``<wait>``; the defaults leave it to the model.

    Attributes:
        wait_bias: Number that is added to the logit of ``<wait>``. Above 0, the model waits more
            often, which raises the latency; below 0, it emits earlier.
        max_waits: Most turns without words in a row; the next turn then has words. None: any
            number. Pauses of the speaker count, so a small number lets the model invent words.
        max_tokens: Most tokens of a turn, end token included. The turn ends there.
        final_tokens: The same for the last turn of a source, which must complete the translation.
    """

    wait_bias: float = 0.0
    max_waits: int | None = None
    max_tokens: int = 64
    final_tokens: int = 256

    def __post_init__(self) -> None:
        """Raises ZooError for a number below 1, and for a bias that is not finite."""
        check_numbers("Emission", least=1, max_waits=self.max_waits)
        check_numbers(
            "Emission", least=1, max_tokens=self.max_tokens, final_tokens=self.final_tokens
        )
        check_numbers("Emission", least=-1000, most=1000, wait_bias=self.wait_bias)
