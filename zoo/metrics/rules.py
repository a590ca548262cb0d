"""Counting rules of the evaluation tools of the field, by the name of the tool."""

from collections.abc import Callable
from dataclasses import dataclass

from zoo.base.errors import check_choice
from zoo.base.types import UnitKind


@dataclass(frozen=True, slots=True)
class Rules:
    """The counting rules of one tool.

    Attributes:
        name: Name of the tool.
        length: Counts the units of a reference.
        clamp: StreamLAAL sets times before the start of a segment to 0.
        milliseconds: StreamLAAL compares milliseconds, which are products of floating-point
            numbers: 32.63 s are 32630.000000000004 ms, so a unit at 32630 ms is not the last one.
        cased: Re-segmentation by mWER distinguishes upper and lower case.
        latin_runs: Re-segmentation of characters treats a run of Latin letters and spaces as one
            token.
        ascii_space: Only ASCII white space separates the tokens of a reference. (C++ tools do not
            split at a no-break space.)
        spaces: A space between characters counts as a unit.
        bare: In whole talks, spaces are removed from references in characters before scoring.
        joined: The characters of a re-segmented hypothesis are joined without the spaces of its
            text. (FBK's StreamLAAL separates characters by spaces and then removes all spaces.)
    """

    name: str
    length: Callable[[str, UnitKind], int]
    clamp: bool = True
    milliseconds: bool = False
    cased: bool = True
    latin_runs: bool = False
    ascii_space: bool = False
    spaces: bool = False
    bare: bool = False
    joined: bool = False

    def reference(self, text: str, unit: UnitKind) -> str:
        """Return the reference as it is scored."""
        return text.replace(" ", "") if self.bare and unit == "char" else text.strip()


def plain_length(text: str, unit: UnitKind) -> int:
    """Count words or characters without white space."""
    words = text.split()
    return len(words) if unit == "word" else len("".join(words))


def simuleval_length(text: str, unit: UnitKind) -> int:
    """Count as SimulEval, FBK and OmniSTEval: words at single spaces (one in an empty text).

    Characters count with the spaces between them. In whole talks, OmniSTEval removes these spaces
    from references (``Rules.bare``) before it counts.
    """
    return len(text.split(" ")) if unit == "word" else len(text.strip())


def simulstream_length(text: str, unit: UnitKind) -> int:
    """Count as simulstream: words at single spaces without empty ones, all characters."""
    return len([word for word in text.split(" ") if word]) if unit == "word" else len(text)


RULES: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        Rules("zoo", plain_length),
        # also FBK's StreamLAAL v2.0, of 2025
        Rules("simuleval", simuleval_length, milliseconds=True, ascii_space=True, joined=True),
        # FBK's StreamLAAL v1.0.0, of 2024
        Rules(
            "fbk_v1",
            simuleval_length,
            clamp=False,
            milliseconds=True,
            ascii_space=True,
            joined=True,
        ),
        Rules("omnisteval", simuleval_length, bare=True),
        Rules(
            "simulstream",
            simulstream_length,
            clamp=False,
            cased=False,
            latin_runs=True,
            ascii_space=True,
            spaces=True,
        ),
    )
}


def find_rules(name: str) -> Rules:
    """Return the rules of a tool. Raises ZooError for an unknown name."""
    check_choice("counting rules", name, RULES)
    return RULES[name]
