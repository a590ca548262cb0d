"""Checks that plain configuration values fit the annotations of their arguments.

Hand-written: pydantic and typeguard need the same rules for parts that are not built yet
(``_target_``) and the same words for messages, so that neither makes the code shorter.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from zoo.errors import ZooError, unknown_choice
from zoo.signatures import REQUIRED, TARGET, hints_of

NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
}


def check_arguments(target: Callable[..., Any], values: Mapping[str, Any], *, where: str) -> None:
    """Check values against the names and annotations of a target's arguments.

    Args:
        target: a class or function; a built-in without a signature is not checked.
        values: plain values by argument.
        where: prefix of the arguments in messages, such as ``evaluation.``.

    Raises:
        ZooError: for the first value that is missing, has no argument of its name or does not fit
            the annotation.
    """
    try:
        parameters = signature(target).parameters
    except ValueError:
        return
    hints = hints_of(target)
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())

    for name, value in values.items():
        if name not in parameters and not takes_all:
            raise unknown_choice(
                "key", f"{where}{name}", [f"{where}{parameter}" for parameter in parameters]
            )
        if value == REQUIRED:
            kind = f": {described(hints[name])}" if name in hints else ""
            raise ZooError(f"{where}{name} must be given{kind}.")
        if name in hints and not fits(value, hints[name]):
            raise ZooError(f"{where}{name} must be {described(hints[name])}, not {_shown(value)}.")


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value fits an annotation; a mapping with ``_target_`` always does."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or (isinstance(value, Mapping) and TARGET in value):
        return True

    if origin is Literal:
        return value in inner
    if origin in (Union, UnionType):
        return any(fits(value, choice) for choice in inner)
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(
            value, bool
        )
    if hint in (bool, str, NoneType):
        return isinstance(value, hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(item, inner[1]) for item in value.values())
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, list) and all(fits(item, inner[0]) for item in value)
    if isinstance(hint, type):
        return issubclass(hint, Path | Enum) or not isinstance(
            value, bool | int | float | str | list | None
        )
    return True  # nothing that a plain value could contradict


def described(hint: Any) -> str:
    """An annotation in words: ``int | None`` -> "a whole number or null"."""
    origin, inner = get_origin(hint), get_args(hint)

    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin in (Union, UnionType):
        return " or ".join(described(choice) for choice in inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list ({described(inner[0])} each)"
    return NAMES.get(hint) or f"a {getattr(hint, '__name__', hint)}"


def _shown(value: Any) -> str:
    """As YAML writes it."""
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
