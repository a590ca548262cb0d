"""From a configuration node to the object that it describes."""

import copy
from typing import Any

from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict

from zoo.base.errors import ZooError
from zoo.base.kinds import TARGET
from zoo.config.arguments import check_part
from zoo.config.mistakes import causes, one_line
from zoo.config.targets import locate


def build(node: DictConfig) -> Any:
    """Create the object that a configuration node with ``_target_`` describes, and the parts in it.

    Raises:
        ZooError: a target does not accept a key or a value.
    """
    return _create(node)


def _create(node: DictConfig, *, partial: bool = False) -> Any:
    """Call Hydra's ``instantiate``, which nothing else calls: it runs what targets name.

    Args:
        node: configuration node; ``check_values`` refuses targets that nobody has named.
        partial: whether to return a ``functools.partial`` of the node's target instead.

    Raises:
        ZooError: see ``build``.
    """
    check_values(node)
    name = str(node._get_full_key(None))
    try:
        return instantiate(node, _convert_="all", **({"_partial_": True} if partial else {}))
    except HydraException as error:
        for cause in causes(error):
            if isinstance(cause, ZooError):
                raise cause from error
            if isinstance(cause, TypeError | ValueError):
                raise ZooError(
                    f"{one_line(cause).rstrip('.')} (in the configuration of {name!r})."
                ) from error
        raise


def take_value(cfg: DictConfig, part: str, name: str) -> tuple[DictConfig, Any]:
    """Return a configuration without a value of one of its parts, and the value, null if absent.

    Args:
        cfg: whole configuration, which is not changed.
        part: top-level key.
        name: key of the value in the part.
    """
    rest = copy.deepcopy(cfg)
    with open_dict(rest):
        return rest, rest[part].pop(name, None)


def check_values(node: DictConfig) -> None:
    """Check a configuration node as ``build`` does, without creating its object.

    Raises:
        ZooError: a target does not accept a key or a value, or a value is missing.
    """
    name = str(node._get_full_key(None))
    whole = OmegaConf.to_container(node._get_root())
    values, unresolved = OmegaConf.to_container(node, resolve=True), OmegaConf.to_container(node)
    check_part(values, unresolved, whole, where=f"{name}.")


def arguments_of(node: DictConfig) -> dict[str, Any]:
    """Return the arguments with which ``build`` would call the node's ``_target_``."""
    arguments: dict[str, Any] = _create(node, partial=True).keywords
    return arguments


def target_of(node: DictConfig) -> type:
    """Return the class that a configuration node names as its ``_target_``."""
    found = locate(node[TARGET])
    assert isinstance(found, type)
    return found
