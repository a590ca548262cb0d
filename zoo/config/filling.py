"""The missing arguments of targets in a composed configuration."""

from collections.abc import Iterable, Sequence
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from zoo.base.kinds import TARGET
from zoo.config.inspection import Argument
from zoo.config.signatures import arguments_of_target, complete, part_of, recorded_arguments
from zoo.config.targets import INSTANTIATE_KEYS

HYDRA = "hydra"  # key of Hydra's own configuration


def keys_beside(cfg: DictConfig, path: Sequence[str]) -> list[str] | None:
    """Return the keys of the part that contains a key, also those that the files leave out.

    Nothing is imported.

    Args:
        cfg: configuration, or a part of it.
        path: components of the key.

    Returns:
        The names; None if the key is in no part, or in one whose arguments are not recorded.
    """
    node: DictConfig | None = cfg
    part: str | None = cfg.get(TARGET)
    for name in path[:-1]:
        known = recorded_arguments(part) if part else None
        argument = known.named.get(name) if known else None
        child = node._get_node(name, validate_access=False) if node is not None else None
        node = child if isinstance(child, DictConfig) and not is_special(child) else None
        part = (node.get(TARGET) if node is not None else None) or (
            part_of(argument) if argument else None
        )
    known = recorded_arguments(part) if part else None
    if known is None or known.takes_any:
        return None
    written = [str(name) for name in node] if node is not None else []
    return list(dict.fromkeys([*known.named, *written, *INSTANTIATE_KEYS]))


def is_special(node: DictConfig | ListConfig) -> bool:
    """Return whether a node is null, a link to another node, or must be given."""
    return bool(node._is_none() or node._is_interpolation() or node._is_missing())


def fill(cfg: DictConfig, names: Iterable[Any]) -> None:
    """Add the missing arguments of all targets in some nodes, in place.

    Args:
        cfg: configuration.
        names: keys of the nodes; keys that do not exist are ignored.

    Raises:
        ZooError: a target cannot be imported.
    """
    for name in list(names):
        node = cfg._get_node(name)
        if name != HYDRA and isinstance(node, DictConfig):
            given = OmegaConf.to_container(node)
            completed = complete(given, where=f"{name!s}.")
            if not _is_same(given, completed):
                cfg[name] = completed


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two plain values are equal, with mappings in the same order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def create_parts(cfg: DictConfig, path: Sequence[str]) -> None:
    """Create the parts on the path to a key that are null, in place.

    For the key ``backbone.lora.rank``, this is ``backbone.lora``.

    Args:
        cfg: configuration.
        path: components of the key.
    """
    node: Any = cfg
    for name in path[:-1]:
        if not isinstance(node, DictConfig) or name not in node:
            return
        child = node._get_node(name)
        if child is not None and child._is_none() and TARGET in node:
            argument = arguments_of_target(node[TARGET]).named.get(str(name))
            if part := part_of(argument or Argument(None)):
                node[name] = complete({TARGET: part})
        node = node._get_node(name)
