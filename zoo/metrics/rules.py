"""The small ways in which the tools of the field count differently, by the tool's name. Knows no metric."""

from collections.abc import Callable
from dataclasses import dataclass

from zoo.errors import unknown_choice
from zoo.types import UnitKind


@dataclass(frozen=True, slots=True)
class Rules:
    """How one tool counts.

    length: number of units in a reference. clamp: StreamLAAL sets times before a segment's start to 0.
    cased: re-segmentation by mWER tells upper from lower case. latin_runs: for char units it takes a run of Latin
    letters and spaces as one token. ascii_space: only ASCII white space parts the tokens of a reference (C++ tools keep
    words with a no-break space whole). spaces: a space between characters is a unit. bare: references in
    characters lose their spaces before anything is scored.
    """

    name: str
    length: Callable[[str, UnitKind], int]
    clamp: bool = True
    cased: bool = True
    latin_runs: bool = False
    ascii_space: bool = False
    spaces: bool = False
    bare: bool = False

    def reference(self, text: str, unit: UnitKind) -> str:
        """The reference as it is scored."""
        return text.replace(" ", "") if self.bare and unit == "char" else text.strip()


def plain_length(text: str, unit: UnitKind) -> int:
    """White space never counts."""
    words = text.split()
    return len(words) if unit == "word" else len("".join(words))


def simuleval_length(text: str, unit: UnitKind) -> int:
    """SimulEval and FBK: split at single spaces (an empty text has one word); characters with spaces."""
    return len(text.split(" ")) if unit == "word" else len(text.strip())


def omnisteval_length(text: str, unit: UnitKind) -> int:
    """OmniSTEval: words as SimulEval, characters without spaces."""
    return len(text.split(" ")) if unit == "word" else len(text.replace(" ", "").strip())


def simulstream_length(text: str, unit: UnitKind) -> int:
    """simulstream: words at single spaces, empty ones dropped; every character."""
    return len([word for word in text.split(" ") if word]) if unit == "word" else len(text)


RULES: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        Rules("zoo", plain_length),
        Rules("simuleval", simuleval_length, ascii_space=True),  # also FBK StreamLAAL v2.0
        Rules("omnisteval", omnisteval_length, bare=True),
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
    """Look rules up. Raises ZooError naming the known ones."""
    if name not in RULES:
        raise unknown_choice("counting rules", name, RULES)
    return RULES[name]
