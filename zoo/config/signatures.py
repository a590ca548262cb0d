"""What a configuration may set: the constructor arguments of its targets.

A node with ``_target_`` gives the arguments that differ from the defaults of the Python code;
``complete`` adds the others, so that each argument can be overridden by name and a recorded
configuration holds every value. The arguments of the zoo's own targets are recorded
(``zoo.config.recorded``); other targets are imported.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from zoo.base.errors import ZooError
from zoo.base.kinds import TARGET, Kind, as_json, from_json
from zoo.config.inspection import REQUIRED, UNWRITTEN, Argument, Arguments, inspect_arguments
from zoo.config.recorded import read_signatures
from zoo.config.targets import FUNCTION_BY_NAME, locate

MOVED = {  # keys of earlier versions, and what replaces them
    "training.weight_decay": "optimizer.weight_decay",
    "training.betas": "optimizer.betas",
    "training.epsilon": "optimizer.eps",
}


def moved_key(key: str) -> ZooError | None:
    """Return the error for a key that another key replaces; None for any other key."""
    if key not in MOVED:
        return None
    return ZooError(f"{key} is {MOVED[key]} now, a key of the group optimizer; set that instead.")


def arguments_of_target(target: str | Callable[..., Any], *, where: str = "") -> Arguments:
    """Return the arguments of a target.

    Args:
        target: class or function, or its dotted path. A path that is recorded is not imported.
        where: key of the node that names it, with a final dot, for messages.

    Raises:
        ZooError: the target cannot be imported.
    """
    if callable(target):
        return inspect_arguments(target)
    return recorded_arguments(str(target)) or inspect_arguments(locate(target, where=where))


@cache
def recorded_arguments(target: str) -> Arguments | None:
    """Return the recorded arguments of a target; None if it is not recorded."""
    content = read_signatures()["targets"].get(target)
    if content is None:
        return None
    named = {name: _argument(entry) for name, entry in content["arguments"].items()}
    return Arguments(named, content.get("takes_any", False))


def _argument(entry: Mapping[str, Any]) -> Argument:
    """Return an argument that ``arguments_json`` has written."""
    kind = from_json(entry["kind"]) if "kind" in entry else None
    return Argument(entry.get("default", UNWRITTEN), kind, entry.get("meaning", ""))


def arguments_json(arguments: Arguments) -> dict[str, Any]:
    """Return arguments as JSON."""
    named = {
        name: {
            **({} if one.kind is None else {"kind": as_json(one.kind)}),
            **({} if one.default is UNWRITTEN else {"default": one.default}),
            **({"meaning": one.meaning} if one.meaning else {}),
        }
        for name, one in arguments.named.items()
    }
    return {"arguments": named, **({"takes_any": True} if arguments.takes_any else {})}


def complete(node: Any, argument: Argument | None = None, *, where: str = "") -> Any:
    """Return a copy of a configuration node in which every target has all its arguments.

    The mapping of an argument whose annotation is a dataclass needs no ``_target_``. If the default
    of that argument is an instance, missing values are those of the instance.

    Args:
        node: plain value, list or mapping. Links (``${...}``) are strings and are not resolved.
        argument: argument that the node sets; None at the top level and in mappings whose keys are
            not arguments.
        where: key of the node with a final dot, for messages.

    Returns:
        A copy with ``_target_`` first and all arguments in the order of the signature.

    Raises:
        ZooError: a target cannot be imported.
    """
    if isinstance(node, Mapping):
        return _complete_mapping(node, argument, where)
    if isinstance(node, list):
        item = _item(argument, "list")
        return [complete(value, item, where=f"{where}{at}.") for at, value in enumerate(node)]
    return node


def _complete_mapping(node: Mapping[Any, Any], argument: Argument | None, where: str) -> Any:
    """Return a copy of a mapping with all arguments of its target; see ``complete``."""
    part = part_of(argument) if TARGET not in node and argument else None
    if TARGET not in node and part is None:
        item = _item(argument, "mapping")
        return {
            name: complete(value, item, where=f"{where}{name}.") for name, value in node.items()
        }

    target = part or node[TARGET]
    named = arguments_of_target(target, where=where).named
    given = {
        name: complete(value, named.get(name), where=f"{where}{name}.")
        for name, value in node.items()
        if name != TARGET
    }
    defaults = {name: one.default for name, one in named.items()}
    if part and argument and isinstance(argument.default, Mapping):
        defaults |= argument.default  # values of the instance replace those of the signature
    values = dict(given)
    for name in named.keys() - given.keys():
        left_to_caller = node.get("_partial_") and defaults[name] == REQUIRED
        if defaults[name] is not UNWRITTEN and not left_to_caller:
            values[name] = deepcopy(defaults[name])
    ordered = {name: values[name] for name in named if name in values}
    return {TARGET: target, **ordered, **values}


def part_of(argument: Argument) -> str | None:
    """Return the dotted path of the dataclass that a mapping without ``_target_`` describes.

    None if the argument does not accept a dataclass, accepts several, or also accepts mappings.
    """
    default = argument.default
    if isinstance(default, Mapping) and default.get(TARGET, FUNCTION_BY_NAME) != FUNCTION_BY_NAME:
        return str(default[TARGET])
    members = _members(argument)
    parts = [one.name for one in members if one.form == "part"]
    free = any(one.form == "mapping" or one == Kind("any") for one in members)
    return parts[0] if len(parts) == 1 and not free else None


def _members(argument: Argument | None) -> tuple[Kind, ...]:
    """Return the members of what an argument accepts."""
    return argument.kind.members if argument and argument.kind else ()


def _item(argument: Argument | None, form: str) -> Argument | None:
    """Return an argument with the kind of the values of a mapping or list."""
    for member in _members(argument):
        if member.form == form and member.inner != (Kind("any"),):
            return Argument(None, member.inner[-1])
    return None
