"""Scores and their signatures, which state how a score was computed."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from zoo import __version__


@dataclass(frozen=True, slots=True)
class Score:
    """A metric value with its signature.

    Attributes:
        name: Name of the metric.
        value: The value; times in seconds. None: not defined, for example without any output.
        signature: All settings that affect the value.
    """

    name: str
    value: float | None
    signature: str


def signature(metric: str, **facts: str | bool | None) -> str:
    """Return the signature of a metric, such as "AL|unit:word|simulzoo:0.2.0".

    Args:
        metric: Name of the metric.
        **facts: Settings in the order of the signature. True and False become yes and no, None is
            omitted. A key that ends with an underscore contributes only its value (a signature of
            another tool).
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
    """Return name and version of an installed package, such as "mweralign 1.4.1"."""
    return f"{package} {version(package)}"
