"""Checks that plain configuration values fit the annotations of their arguments.

Hand-written: pydantic and typeguard need the same rules for parts that are not built yet
(``_target_``) and the same words for messages, so that neither makes the code shorter.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from zoo.config.shipped import how_to_get
from zoo.config.signatures import (
    INSTANTIATE_KEYS,
    REQUIRED,
    TARGET,
    check_allowed,
    check_flags,
    hints_of,
    locate,
    moved_key,
)
from zoo.errors import LONGEST, ZooError, shorten_list, unknown_choice

_LINK = re.compile(r"\$\{(\w+)\}")  # a link to a part of the configuration, such as ${backbone}
NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
}


def check_part(node: Any, unresolved: Any, whole: Any, *, where: str) -> None:
    """Check a node and all parts in it against the annotations of their targets.

    Args:
        node: plain values of the node, with the values that links (``${backbone}``) name.
        unresolved: plain values of the node, with the links.
        whole: plain values of the whole configuration, with the links.
        where: key of the node with a final dot. The key of a linked part is the key in the link.

    Raises:
        ZooError: a target does not accept a key or a value, or a value is missing.
    """
    if not isinstance(node, Mapping):
        return

    values = {str(name): value for name, value in node.items() if name not in INSTANTIATE_KEYS}
    if TARGET in node:
        check_flags(node, where=where)
        check_allowed(node, whole.get("trusted_packages") or (), where=where)
        links = {name: link for name in values if (link := _link(unresolved[name]))}
        check_arguments(locate(node[TARGET], where=where), values, where=where, links=links)

    for name, value in values.items():
        below, place = unresolved[name], f"{where}{name}."
        if link := _link(below):
            below, place = whole[link], f"{link}."
        if isinstance(value, str) and not values.get("optional"):
            _check_shipped(f"{where}{name}", value)
        if isinstance(below, str):
            below = value  # the value of a link of another kind contains no links
        check_part(value, below, whole, where=place)


def _link(value: object) -> str | None:
    """Return the key that a link to a part of the configuration names; None for another value."""
    found = _LINK.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else None


def _check_shipped(key: str, folder: str) -> None:
    """Raise ZooError if an installed package lacks a checkpoint of the repository."""
    if command := how_to_get(folder):
        raise ZooError(f"{command}, or set {key} to a trained checkpoint.")


def check_arguments(
    target: Callable[..., Any],
    values: Mapping[str, Any],
    *,
    where: str,
    links: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Check values against the names and annotations of a target's arguments.

    Args:
        target: a class or function; a built-in without a signature is not checked.
        values: plain values by argument.
        where: prefix of the arguments in messages, such as ``evaluation.``.
        links: key of another value, such as ``device``, by the argument that is a link to it.

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
            raise moved_key(f"{where}{name}") or unknown_choice(
                "key", f"{where}{name}", [f"{where}{parameter}" for parameter in parameters]
            )
        if value == REQUIRED:
            kind = f": {described(hints[name])}" if name in hints else ""
            raise ZooError(f"{where}{name} must be given{kind}.")
        if name in hints and not fits(value, hints[name]):
            key, wrong, hint = _unfit(links.get(name, f"{where}{name}"), value, hints[name])
            raise ZooError(f"{key} must be {described(hint)}, not {_shown(wrong)}.")


def _unfit(key: str, value: Any, hint: Any) -> tuple[str, Any, Any]:
    """Return key, value and annotation of the first item of a mapping that does not fit.

    They are the arguments if these describe no mapping.
    """
    for choice in _members(hint) if isinstance(value, Mapping) else ():
        origin = get_origin(choice)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            inner = get_args(choice)[1]
            for name, item in value.items():
                if not fits(item, inner):
                    return _unfit(f"{key}.{name}", item, inner)
    return key, value, hint


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union; for another annotation, the annotation alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


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
    if origin is tuple and Ellipsis not in inner:
        return (
            isinstance(value, list)
            and len(value) == len(inner)
            and all(fits(item, kind) for item, kind in zip(value, inner, strict=True))
        )
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, list) and all(fits(item, inner[0]) for item in value)
    if isinstance(value, Mapping) and isinstance(hint, type):
        return issubclass(dict, hint)  # no part: that would have a ``_target_``
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
    if origin is tuple and Ellipsis not in inner:
        return f"a list ({', '.join(described(kind) for kind in inner)})"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list ({described(inner[0])} each)"
    if isinstance(hint, type) and is_dataclass(hint):
        return f"a mapping ({shorten_list(field.name for field in fields(hint) if field.init)})"
    name = getattr(hint, "__name__", str(hint))
    return NAMES.get(hint) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _shown(value: Any) -> str:
    """As YAML writes it; the beginning of a long value."""
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
