"""Scores and their signatures, which state how a score was computed."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from zoo.base.version import __version__


@dataclass(frozen=True, slots=True)
class Score:
    """A metric value with its signature.

    Attributes:
        name: Name of the metric.
        value: The value; times are seconds. None: the metric is not defined for the output.
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
            omitted. A setting whose key ends with an underscore is shown without its key: its value
            is a signature of another tool or a word that needs no key.
    """
    parts = [metric]
    for key, value in facts.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = "yes" if value else "no"
        parts.append(value if key.endswith("_") else f"{key}:{value}")
    return "|".join([*parts, f"simulzoo:{__version__}"])


@cache
def package_version(package: str) -> str:
    """Return name and version of an installed package, such as "mweralign 1.4.1"."""
    return f"{package} {version(package)}"
