"""Methods that assign the units of a talk to its reference segments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from zoo.base.errors import ZooError, check_choice
from zoo.base.languages import Language
from zoo.metrics.meaning_segmenter import WordEncoder, meaning_segment
from zoo.metrics.mwer_segmenter import mwer_segment
from zoo.metrics.rules import Rules
from zoo.metrics.signature import package_version
from zoo.metrics.soft_segmenter import soft_segment

if TYPE_CHECKING:
    import torch  # metrics need no network, but for the encoder of ``meaning``

Resegmentation = Literal["mwer", "soft", "meaning"]


@dataclass(frozen=True, slots=True)
class Resegmenter:
    """A method of re-segmentation.

    Attributes:
        method: ``mwer``: minimum WER; ``soft``: SoftSegmenter, by characters of words; ``meaning``:
            by contextual vectors of words.
        encoder: Encoder of ``meaning``; None for the others.

    Raises:
        ZooError: The method is unknown, needs an encoder, or ignores the one that is named.
    """

    method: Resegmentation = "mwer"
    encoder: WordEncoder | None = None

    def __post_init__(self) -> None:
        """Check that the method and the encoder belong together."""
        check_choice("re-segmentation", self.method, get_args(Resegmentation))
        check_encoder(self.method, self.encoder)

    @property
    def encoder_name(self) -> str | None:
        """The encoder in signatures; None for a method without one."""
        return self.encoder.signature if self.encoder else None

    def check(self) -> None:
        """Raise ZooError if the encoder, where the method has one, is missing."""
        if self.encoder is not None:
            self.encoder.check()

    def load(self, device: "torch.device | None" = None) -> None:
        """Load the encoder, if there is one; the methods without one do nothing.

        Args:
            device: device of the encoder; None: the CPU.

        Raises:
            ZooError: The encoder is missing or damaged.
        """
        if self.encoder is not None:
            self.encoder.load(device)

    def signature(self, rules: Rules) -> str:
        """Return the method for signatures, under the given counting rules."""
        return resegmentation_name(self.method, rules, self.encoder_name)

    def assign(
        self, units: Sequence[str], references: Sequence[str], *, language: Language, rules: Rules
    ) -> list[list[int]]:
        """Assign units to reference segments.

        Args:
            units: Units of the hypothesis.
            references: Texts of the reference segments.
            language: Target language.
            rules: Counting rules.

        Returns:
            For each segment the positions of its units in ascending order.

        Raises:
            ZooError: There is no reference segment.
        """
        if self.encoder is not None:
            return meaning_segment(units, references, language=language, encoder=self.encoder)
        if self.method == "soft":
            return soft_segment(units, references, language=language)
        pieces = mwer_segment(units, references, language=language, rules=rules)
        return [list(piece) for piece in pieces]


def check_encoder(method: Resegmentation, encoder: object) -> None:
    """Raise ZooError unless ``meaning``, and no other method, has an encoder."""
    if method == "meaning" and encoder is None:
        raise ZooError(
            "evaluation.resegmentation=meaning needs evaluation.encoder, the hub id or folder of "
            "an encoder of the target language, such as sentence-transformers/LaBSE."
        )
    if method != "meaning" and encoder is not None:
        raise ZooError(
            f"evaluation.encoder has no effect with evaluation.resegmentation={method}; leave it "
            "out, or set evaluation.resegmentation=meaning."
        )


def resegmentation_name(method: Resegmentation, rules: Rules, encoder: str | None = None) -> str:
    """Return the method for signatures.

    Args:
        method: Method of re-segmentation.
        rules: Counting rules.
        encoder: The encoder of ``meaning``, in signatures.
    """
    if method == "meaning":
        return f"meaning({encoder})"
    if method == "soft":
        return "soft"
    return f"mwer({package_version('mweralign')}, {'cased' if rules.cased else 'lower-cased'})"


MWER = Resegmenter()
