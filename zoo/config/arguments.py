"""Checks that plain configuration values fit the arguments of their targets."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from zoo.base.errors import LONGEST, ZooError, largest, shorten, unknown_choice
from zoo.base.kinds import TARGET, Kind, described, fits
from zoo.config.inspection import REQUIRED
from zoo.config.shipped import how_to_get
from zoo.config.signatures import arguments_of_target, moved_key, recorded_arguments
from zoo.config.targets import INSTANTIATE_KEYS, OPTIMIZERS, check_allowed, check_flags

_LINK = re.compile(r"\$\{(\w+)\}")  # a link to a part of the configuration, such as ${backbone}


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
        check_arguments(node[TARGET], values, where=where, links=links)

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
    target: str | Callable[..., Any],
    values: Mapping[str, Any],
    *,
    where: str,
    links: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Check values against the names and annotations of a target's arguments.

    Args:
        target: a class or function, or its dotted path; a built-in without a signature is not
            checked.
        values: plain values by argument.
        where: prefix of the arguments in messages, such as ``evaluation.``.
        links: key of another value, such as ``device``, by the argument that is a link to it.

    Raises:
        ZooError: for the first value that is missing, has no argument of its name or does not fit
            the annotation.
    """
    arguments = arguments_of_target(target, where=where)
    for name, value in values.items():
        if name not in arguments.named:
            if arguments.takes_any:
                continue
            raise moved_key(f"{where}{name}") or unknown_choice(
                "key", f"{where}{name}", [f"{where}{one}" for one in arguments.named]
            )
        kind = arguments.named[name].kind
        if value == REQUIRED:
            wanted = f": {described(kind)}" if kind else ""
            raise ZooError(f"{where}{name} must be given{wanted}.")
        if kind is not None:
            _check_value(links.get(name, f"{where}{name}"), value, kind)


def check_recorded(node: Any, *, where: str = "") -> None:
    """Check the values of a configuration before anything is imported.

    Links, missing values and targets that are not recorded are checked when objects are built.

    Args:
        node: plain values, with the links.
        where: key of the node with a final dot.

    Raises:
        ZooError: a value does not fit the annotation of its argument.
    """
    if isinstance(node, list):
        node = dict(enumerate(node))
    if not isinstance(node, Mapping):
        return
    target = str(node.get(TARGET))
    # an optimizer without a learning rate receives that of each stage
    arguments = None if target.startswith(OPTIMIZERS) else recorded_arguments(target)
    for name, value in node.items():
        argument = arguments.named.get(name) if arguments else None
        if argument and argument.kind and not _is_open(value):
            _check_value(f"{where}{name}", value, argument.kind)
        check_recorded(value, where=f"{where}{name}.")


def _is_open(value: Any) -> bool:
    """Return whether a value is missing or contains a link."""
    if isinstance(value, Mapping):
        return TARGET not in value and any(map(_is_open, value.values()))
    if isinstance(value, list):
        return any(map(_is_open, value))
    return isinstance(value, str) and (value == REQUIRED or "${" in value)


def _check_value(key: str, value: Any, kind: Kind) -> None:
    """Raise ZooError unless a value fits; the error names the first item that does not."""
    for name, number in numbers_in(key, value):
        limit = largest(name.rpartition(".")[2])
        if not -limit <= number <= limit:
            raise ZooError(
                f"{name} must be a number of at most {limit:.15g}, not {_shown(number)}."
            )
    if not fits(value, kind):
        key, wrong, kind = _unfit(key, value, kind)
        meant = f"; write '{key}=[{wrong}]'" if fits([wrong], kind) else ""
        raise ZooError(f"{key} must be {described(kind)}, not {_shown(wrong)}{meant}.")


def numbers_in(key: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a value, each with its key; those of a list have the key of the list."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from numbers_in(key, item)
    elif isinstance(value, Mapping) and TARGET not in value:
        for name, item in value.items():
            yield from numbers_in(f"{key}.{name}", item)


def _unfit(key: str, value: Any, kind: Kind) -> tuple[str, Any, Kind]:
    """Return key, value and kind of the first item of a mapping that does not fit.

    They are the arguments if these describe no mapping.
    """
    for member in kind.members if isinstance(value, Mapping) else ():
        if member.form == "mapping":
            for name, item in value.items():
                if not fits(item, member.inner[0]):
                    return _unfit(f"{key}.{name}", item, member.inner[0])
    return key, value, kind


def _shown(value: Any) -> str:
    """As YAML writes it; the beginning of a long value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return shorten(value)
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
