"""Keys that do not exist: the keys beside them, and those that the user may have meant."""

from collections.abc import Iterator, Sequence

from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zoo.base.errors import ZooError, similar, unknown_choice
from zoo.config.filling import HYDRA, keys_beside
from zoo.config.loader import PARTS, SEARCH_PATH
from zoo.config.signatures import moved_key
from zoo.config.sources import Folders, composed, job_loader
from zoo.config.targets import INSTANTIATE_KEYS


def null_choice(given: Sequence[str], folders: Folders) -> str:
    """Return a sentence with the choices of a group that is set to null, such as ``system=null``.

    Hydra's message does not name the choices. The sentence is empty if no group is null.
    """
    found, search = job_loader(folders)
    for group in (item.partition("=")[0] for item in given if item.endswith("=null")):
        if choices := found.get_group_options(group, overrides=search):
            return str(unknown_choice(group, "null", choices))
    return ""


def unknown_key(config_name: str, key: str, given: Sequence[str], folders: Folders) -> str:
    """Return a sentence about an unknown key, with the choices of its group that have the key.

    Args:
        config_name: ``train`` or ``evaluate``.
        key: full key, such as ``data.root``.
        given: overrides.
        folders: additional folders of a new loader; see ``job_loader``.

    Returns:
        The sentence; empty if the key exists.
    """
    if moved := moved_key(key):
        return str(moved)
    group, _, subkey = key.partition(".")
    found, search = job_loader(folders)
    search = [*search, *(item for item in given if item.startswith(SEARCH_PATH))]
    choices_of_groups = []
    for item in given:
        name, _, value = item.partition("=")
        if value.startswith("{"):
            continue  # values below the group, not a choice of it
        chosen, _, _ = name.partition("@")  # a group may be chosen for another place
        if "." not in chosen and found.get_group_options(chosen, overrides=search):
            choices_of_groups.append(item)

    siblings = _siblings(config_name, key, [*search, *choices_of_groups], folders)
    if siblings is None:  # the parent of the key does not exist either
        return unknown_key(config_name, key.rpartition(".")[0], given, folders) if subkey else ""

    owners = list(found.owners(group, key, search)) if subkey else []
    if owners:
        users = _users(config_name, group, owners, search, folders)
        named = f" (system={', '.join(users)})" if users else ""
        keys = f", and the keys here are: {', '.join(siblings)}" if siblings else ""
        return f"Unknown key {key!r}; it is a key of {group}={', '.join(owners)}{named}{keys}."
    if not siblings:
        parent = key.rpartition(".")[0]
        return f"Unknown key {key!r}; {parent} has no keys (+{key}=... adds one to a mapping)."
    groups = [] if subkey else groups_of(config_name, folders)
    search = [*search, *choices_of_groups]
    meant = similar(key, [*siblings, *groups]) or _elsewhere(key, config_name, search, folders)
    return str(unknown_choice("key", key, siblings, meant))


def groups_with(config_name: str, choice: str, folders: Folders) -> list[str]:
    """Return the groups of a configuration that have a choice of this name.

    Args:
        config_name: ``train`` or ``evaluate``.
        choice: name, such as ``streamatt``.
        folders: additional folders of a new loader; see ``job_loader``.
    """
    found, search = job_loader(folders)
    return [
        group
        for group in groups_of(config_name, folders)
        if choice in found.get_group_options(group, overrides=search)
    ]


def groups_of(config_name: str, folders: Folders) -> list[str]:
    """Return the groups that a configuration chooses from, without those of Hydra."""
    found, search = job_loader(folders)
    groups = dict.fromkeys([*found.keys_of(config_name), *found.choices(config_name, search)])
    names = [group for group in groups if group.isidentifier() and group != HYDRA]
    return [group for group in names if found.get_group_options(group, overrides=search)]


def _users(
    config_name: str, group: str, choices: Sequence[str], search: Sequence[str], folders: Folders
) -> list[str]:
    """Return the systems that have one of these choices of a group, unless the group is their own.

    Args:
        config_name: ``train`` or ``evaluate``.
        group: group, such as ``policy``.
        choices: choices of the group.
        search: overrides of ``hydra.searchpath``.
        folders: additional folders of a new loader; see ``job_loader``.
    """
    if group == "system" or group not in PARTS:
        return []
    found, _ = job_loader(folders)
    systems = found.get_group_options("system", overrides=list(search))
    chosen = {name: found.choices(config_name, [*search, f"system={name}"]) for name in systems}
    return [name for name, own in chosen.items() if own.get(group) in choices]


def _elsewhere(key: str, config_name: str, given: Sequence[str], folders: Folders) -> list[str]:
    """Return at most three full keys with the last component of ``key``, such as ``policy.frames``.

    They are keys of the configuration, or else of other choices of its parts.
    """
    found, search = job_loader(folders)
    name = key.rpartition(".")[2]
    cfg = OmegaConf.to_container(composed(config_name, given, folders))
    keys = [one for one in _full_keys(cfg) if one.rpartition(".")[2] == name]
    keys = keys or [
        f"{part}.{name}" for part in PARTS if any(found.owners(part, f"{part}.{name}", search))
    ]
    return keys[:3]


def _full_keys(node: object, where: str = "") -> Iterator[str]:
    """Yield the full keys below a node of plain values, those of a mapping before deeper ones."""
    if isinstance(node, dict):
        yield from (f"{where}{name}" for name in node)
        for name, value in node.items():
            yield from _full_keys(value, f"{where}{name}.")


def _siblings(
    config_name: str, key: str, given: Sequence[str], folders: Folders
) -> list[str] | None:
    """Return the full keys of the mapping that contains ``key``; None if there is no such mapping.

    Args:
        config_name: ``train`` or ``evaluate``.
        key: full key.
        given: overrides.
        folders: additional folders of a new loader; see ``job_loader``.
    """
    parent = key.rpartition(".")[0]
    own = key.partition(".")[0] == HYDRA
    try:
        cfg = composed(config_name, given, folders, with_hydra=own)
        if not parent:
            return [str(name) for name in cfg]
        if (known := keys_beside(cfg, key.split("."))) is not None:
            return [f"{parent}.{name}" for name in known if name not in INSTANTIATE_KEYS]
        create = f"{parent}={{}}"  # a part that is null becomes a part with default values
        cfg = composed(config_name, [*given, create], folders, with_hydra=own)
        siblings = OmegaConf.select(cfg, parent)
    except (ZooError, HydraException, OmegaConfBaseException):
        return None
    return [f"{parent}.{name!s}" for name in siblings if name not in INSTANTIATE_KEYS]
