"""What ``_target_`` may name: the classes and functions that a configuration creates or calls."""

import re
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType
from typing import Any

from zoo.base.errors import ZooError, check_choice
from zoo.base.kinds import TARGET, path_of
from zoo.base.machine.hints import INSTALLED
from zoo.config.recorded import read_signatures
from zoo.config.shipped import REPOSITORY

INSTANTIATE_KEYS = (TARGET, "_args_", "_convert_", "_partial_", "_recursive_")  # of Hydra
RECIPES = "recipes"  # folder beside zoo/ in the repository: trainings that no wheel contains
OWN_PACKAGES = ("zoo", "lightning", RECIPES)  # may be created without being named by a user
OPTIMIZERS = "torch.optim."  # begins the path of a class that conf/optimizer may name
FUNCTION_BY_NAME = "pkgutil.resolve_name"  # target of a node that stands for a function
CONVERSIONS = ("none", "partial", "object", "all")
_NAMED = re.compile(rf"{TARGET}['\"]?\s*[:=]\s*['\"]?([\w.]+)")
_default_functions: set[str] = set(read_signatures()["functions"])  # defaults of arguments, by name


def named_targets(text: str) -> set[str]:
    """Return the targets that an override or a YAML file names."""
    return set(_NAMED.findall(text))


def function_node(function: FunctionType) -> dict[str, str]:
    """Return the node of a function that is the default of an argument."""
    _default_functions.add(path_of(function))
    return {TARGET: FUNCTION_BY_NAME, "name": path_of(function)}


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
    if target in read_signatures()["targets"]:
        return
    found = locate(target, where=where)
    # zoo.base.disk.files.os.system is a function that a module of the zoo imports from elsewhere
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
