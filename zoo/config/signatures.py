"""What a configuration may set: the constructor arguments of its targets, read from signatures.

A node with ``_target_`` gives the arguments that differ from the defaults of the Python code;
``complete`` adds the others, so that each argument can be overridden by name and a recorded
configuration holds every value.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from zoo.config.commands import INSTALLED
from zoo.config.shipped import REPOSITORY
from zoo.errors import ZooError, check_choice

TARGET = "_target_"
INSTANTIATE_KEYS = (TARGET, "_args_", "_convert_", "_partial_", "_recursive_")  # of Hydra
RECIPES = "recipes"  # folder beside zoo/ in the repository: trainings that no wheel contains
OWN_PACKAGES = ("zoo", "lightning", RECIPES)  # may be created without being named by a user
OPTIMIZERS = "torch.optim."  # begins the path of a class that conf/optimizer may name
FUNCTION_BY_NAME = "pkgutil.resolve_name"  # target of a node that stands for a function
CONVERSIONS = ("none", "partial", "object", "all")
MOVED = {  # keys of earlier versions, and what replaces them
    "training.weight_decay": "optimizer.weight_decay",
    "training.betas": "optimizer.betas",
    "training.epsilon": "optimizer.eps",
}
_default_functions: set[str] = set()  # functions that are defaults of arguments, by name
REQUIRED = "???"  # OmegaConf's mark of a value that a configuration must set


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a target.

    Attributes:
        default: default value; ``REQUIRED`` for an argument without a default.
        hint: annotation; None if the argument has no annotation or it cannot be resolved.
    """

    default: Any
    hint: Any


def moved_key(key: str) -> ZooError | None:
    """Return the error for a key that another key replaces; None for any other key."""
    if key not in MOVED:
        return None
    return ZooError(f"{key} is {MOVED[key]} now, a key of the group optimizer; set that instead.")


def locate(target: str, *, where: str = "") -> Any:
    """Return the class or function that a dotted path names.

    Args:
        target: dotted path, such as ``zoo.policies.wait_k.WaitK``.
        where: key of the node that contains the path, with a final dot, for messages.

    Raises:
        ZooError: the class or function cannot be imported.
    """
    if str(target).startswith(f"{RECIPES}."):
        check_recipe(target, where=where)
    try:
        found = resolve_name(target)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ZooError(
            f"{where}{TARGET} is {target!r}, which cannot be imported ({error})."
        ) from error
    if not callable(found):
        raise ZooError(f"{where}{TARGET} is {target!r}, which is no class or function.")
    return found


def check_recipe(target: str, *, where: str = "") -> None:
    """Raise ZooError unless ``recipes`` is that of the repository in which this package is.

    Args:
        target: dotted path below ``recipes``.
        where: as in ``locate``.
    """
    package = Path(__file__).resolve().parents[1]
    spec = None if INSTALLED else find_spec(RECIPES)
    locations = spec.submodule_search_locations if spec is not None else None
    if package.parent / RECIPES not in [Path(folder).resolve() for folder in locations or ()]:
        raise ZooError(
            f"{where}{TARGET} is {target!r}, a training recipe, which only the repository has: "
            f"clone {REPOSITORY} and run python train.py in it."
        )


def check_allowed(node: Mapping[str, Any], trusted: Collection[str], *, where: str) -> None:
    """Check that the target of a node may be called.

    Allowed are classes and functions of the zoo and of Lightning, PyTorch's optimizers, and
    everything in packages that the user names. A function that is a value (``FUNCTION_BY_NAME``) is
    called without arguments later; of the zoo's functions, only the defaults of arguments may be
    such values.

    Args:
        node: plain values of the node.
        trusted: packages that the user names.
        where: key of the node with a final dot, for messages.

    Raises:
        ZooError: the target belongs to another package, or cannot be imported.
    """
    target, key = node[TARGET], f"{where}{TARGET}"
    if target == FUNCTION_BY_NAME:
        target, key = node.get("name"), f"{where}name"
    package = str(target).partition(".")[0]
    if package in trusted:
        return  # a user's own line or file names it; see zoo.config.records for other files
    if str(target).startswith(OPTIMIZERS):
        # torch.optim.optimizer.defaultdict is a class that a module imports from elsewhere
        found = locate(target, where=where)
        if isinstance(found, type) and found.__module__.startswith(OPTIMIZERS):
            return
    if package not in OWN_PACKAGES:
        raise ZooError(
            f"{key} is {target!r}, of a package that neither the zoo nor the command names; "
            f"trusted_packages=[{package}] accepts it."
        )
    if node[TARGET] == FUNCTION_BY_NAME and target not in _default_functions:
        raise ZooError(
            f"{key} is {target!r}; it must be the default or a function of a package of yours."
        )
    found = locate(target, where=where)
    # zoo.disk.files.os.system is a function that a module of the zoo imports from elsewhere
    if str(getattr(found, "__module__", "")).partition(".")[0] not in OWN_PACKAGES:
        raise ZooError(f"{key} is {target!r}, which does not belong to {package}.")


def check_flags(node: Mapping[str, Any], *, where: str) -> None:
    """Raise ZooError for a wrong value of a key by which Hydra creates a target.

    Args:
        node: plain values of the node.
        where: key of the node with a final dot, for messages.
    """
    for name in ("_partial_", "_recursive_"):
        if not isinstance(node.get(name, False), bool):
            raise ZooError(f"{where}{name} must be true or false, not {node[name]!r}.")
    if not isinstance(node.get("_args_", []), list):
        raise ZooError(f"{where}_args_ must be a list, not {node['_args_']!r}.")
    check_choice(f"{where}_convert_", node.get("_convert_", "none"), CONVERSIONS)


@cache
def arguments(target: Callable[..., Any]) -> Mapping[str, Argument]:
    """Return the arguments of a target by name; empty for a built-in without a signature."""
    try:
        parameters = signature(target).parameters
    except ValueError:
        return {}

    fields = {}
    if isinstance(target, type) and dataclasses.is_dataclass(target):
        fields = {field.name: field for field in dataclasses.fields(target)}
    hints = hints_of(target)

    found: dict[str, Argument] = {}
    for name, parameter in parameters.items():
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            continue
        default = REQUIRED if parameter.default is Parameter.empty else parameter.default
        factory = fields[name].default_factory if name in fields else None
        if callable(factory):  # a field without a factory has a marker that cannot be called
            default = factory()
        found[name] = Argument(default, hints.get(name))
    return found


def hints_of(target: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of a target's arguments; empty if an annotation is not resolvable."""
    called = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
    try:
        return get_type_hints(called)
    except (NameError, TypeError):
        return {}


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
        item = _item(argument, Sequence)
        return [complete(value, item, where=f"{where}{at}.") for at, value in enumerate(node)]
    return node


def _complete_mapping(node: Mapping[Any, Any], argument: Argument | None, where: str) -> Any:
    """Return a copy of a mapping with all arguments of its target; see ``complete``."""
    part = part_of(argument) if TARGET not in node and argument else None
    if TARGET not in node and part is None:
        item = _item(argument, Mapping)
        return {
            name: complete(value, item, where=f"{where}{name}.") for name, value in node.items()
        }

    target = part or locate(node[TARGET], where=where)
    parameters = arguments(target)
    given = {
        name: complete(value, parameters.get(name), where=f"{where}{name}.")
        for name, value in node.items()
        if name != TARGET
    }

    # The default of the argument may be an instance, whose values replace those of the signature.
    instance = argument.default if part and argument else None
    values = dict(given)
    for name in parameters.keys() - given.keys():
        if node.get("_partial_") and parameters[name].default == REQUIRED:
            continue  # whoever calls the partial function adds it
        with suppress(TypeError):  # a default that no configuration can contain is left out
            values[name] = as_plain(getattr(instance, name, parameters[name].default))
    ordered = {name: values[name] for name in parameters if name in values}
    return {TARGET: path_of(target) if part else node[TARGET], **ordered, **values}


def as_plain(value: Any) -> Any:
    """Return a default as configuration values: dataclasses as nodes, functions by name.

    Raises:
        TypeError: the default has a type that no configuration can contain.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, str):
        return str(value)  # a member of a StrEnum
    if isinstance(value, Mapping):
        return {name: as_plain(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [as_plain(item) for item in value]
    if isinstance(value, FunctionType):
        _default_functions.add(path_of(value))
        return {TARGET: FUNCTION_BY_NAME, "name": path_of(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        values = {name: as_plain(getattr(value, name)) for name in names}
        return {TARGET: path_of(type(value)), **values}
    raise TypeError(f"{value!r} cannot be written to a configuration.")


def part_of(argument: Argument) -> type | None:
    """Return the dataclass that a mapping without ``_target_`` describes.

    None if the argument does not accept a dataclass, accepts several, or also accepts mappings.
    """
    default = argument.default
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        return type(default)
    choices = _choices(argument.hint)
    classes = [choice for choice in choices if dataclasses.is_dataclass(choice)]
    free = [choice for choice in choices if (get_origin(choice) or choice) in (Mapping, dict, Any)]
    return classes[0] if len(classes) == 1 and not free else None  # type: ignore[return-value]


def path_of(thing: type | FunctionType) -> str:
    """Return the dotted path of a class or function."""
    return f"{thing.__module__}.{thing.__qualname__}"


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union; for another annotation, the annotation alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _item(argument: Argument | None, kind: type) -> Argument | None:
    """Return an argument with the annotation of the values of a mapping or list."""
    for choice in _choices(argument.hint) if argument else ():
        origin = get_origin(choice)
        if isinstance(origin, type) and issubclass(origin, kind) and get_args(choice):
            return Argument(None, get_args(choice)[-1])
    return None
