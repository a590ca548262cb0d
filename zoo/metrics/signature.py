"""A score and the words that make it comparable. Knows no metric."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from zoo import __version__


@dataclass(frozen=True, slots=True)
class Score:
    """A named value (seconds for times; None: not defined, e.g. nothing was written) and its signature."""

    name: str
    value: float | None
    signature: str


def signature(metric: str, **facts: str | bool | None) -> str:
    """``signature("AL", unit="word")`` -> "AL|unit:word|simulzoo:0.2.0". True prints as yes; None is left out.

    A key with an underscore at its end is printed as its bare value (for signatures made by other tools).
    """
    parts = [metric]
    for key, value in facts.items():
        if value is None:
            continue
        shown = ("no", "yes")[value] if isinstance(value, bool) else value
        parts.append(shown if key.endswith("_") else f"{key}:{shown}")
    return "|".join([*parts, f"simulzoo:{__version__}"])


@cache
def package_version(package: str) -> str:
    """Name and version of an installed package: "mweralign 1.4.1"."""
    return f"{package} {version(package)}"
