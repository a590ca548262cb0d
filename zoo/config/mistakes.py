"""Mistakes in a configuration as one sentence, with the possible choices where they are known."""

import re
from collections.abc import Iterator, Sequence

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zoo.config.loader import SEARCH_PATH, keys_beside
from zoo.config.signatures import moved_key
from zoo.config.sources import Folders, composed, job_loader
from zoo.config.targets import INSTANTIATE_KEYS
from zoo.errors import ZooError, unknown_choice

# Beginnings of the lines in messages of Hydra and OmegaConf that describe their own syntax and
# classes, which do not help a user of the zoo.
_HINTS = (
    "To append",
    "See https",
    "full_key",
    "object_type",
    "reference_type",
    "Config search path",
    "Set the",
)


def explained(
    error: HydraException | OmegaConfBaseException,
    config_name: str,
    given: Sequence[str],
    folders: Folders = (),
) -> str:
    """Return one sentence about wrong overrides, with the possible choices if they are known.

    Args:
        error: error of Hydra or OmegaConf.
        config_name: ``train`` or ``evaluate``.
        given: overrides.
        folders: additional folders of a new loader; see ``job_loader``.
    """
    for cause in causes(error):
        if isinstance(cause, ZooError):
            return str(cause)

    if isinstance(error, OverrideParseException):
        reason = one_line(error).removeprefix(f"Error parsing override '{error.override}'").strip()
        return (
            f"Cannot read {error.override!r} ({reason}); write key=value, in quotes if it has "
            "spaces or brackets."
        )
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return str(unknown_choice(group, name, error.options))

    # Hydra's exceptions have the experiment and the key only in their text.
    foreign = re.match(r"In 'experiment/([^']+)': Could not override '([^']+)'", str(error))
    if foreign:
        return (
            f"Experiment {foreign[1]!r} is not for {config_name}.py, which has no {foreign[2]!r}."
        )
    # Hydra's own settings are not part of the composed configuration.
    found = re.match(r"Could not override '((?!hydra\b)[^'@]+)'", str(error))
    if found and (sentence := _unknown_key(config_name, found[1], given, folders)):
        return sentence

    sentences = dict.fromkeys(one_line(item) for item in (error, *causes(error)))
    return " ".join(sentences)


def null_choice(given: Sequence[str], folders: Folders) -> str:
    """Return a sentence with the choices of a group that is set to null, such as ``system=null``.

    Hydra's message does not name the choices. The sentence is empty if no group is null.
    """
    found, search = job_loader(folders)
    for group in (item.partition("=")[0] for item in given if item.endswith("=null")):
        if choices := found.get_group_options(group, overrides=search):
            return str(unknown_choice(group, "null", choices))
    return ""


def _unknown_key(config_name: str, key: str, given: Sequence[str], folders: Folders) -> str:
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
        if "." not in name and found.get_group_options(name, overrides=search):
            choices_of_groups.append(item)

    siblings = _siblings(config_name, key, [*search, *choices_of_groups], folders)
    if siblings is None:  # the parent of the key does not exist either
        return _unknown_key(config_name, key.rpartition(".")[0], given, folders) if subkey else ""

    owners = list(found.owners(group, key, search)) if subkey else []
    if owners:
        keys = f", and the keys here are: {', '.join(siblings)}" if siblings else ""
        return f"Unknown key {key!r}; it is a key of {group}={', '.join(owners)}{keys}."
    if not siblings:
        parent = key.rpartition(".")[0]
        return f"Unknown key {key!r}; {parent} has no keys (+{key}=... adds one to a mapping)."
    return str(unknown_choice("key", key, siblings))


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
    try:
        cfg = composed(config_name, given, folders)
        if not parent:
            return [str(name) for name in cfg]
        if (known := keys_beside(cfg, key.split("."))) is not None:
            return [f"{parent}.{name}" for name in known if name not in INSTANTIATE_KEYS]
        create = f"{parent}={{}}"  # a part that is null becomes a part with default values
        cfg = composed(config_name, [*given, create], folders)
        siblings = OmegaConf.select(cfg, parent)
    except (ZooError, HydraException, OmegaConfBaseException):
        return None
    return [f"{parent}.{name!s}" for name in siblings if name not in INSTANTIATE_KEYS]


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the cause of an error, the cause of the cause, and so on."""
    while (cause := error.__cause__) is not None:
        yield cause
        error = cause


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line, without Hydra's hints about its own syntax."""
    text = str(error).removeprefix("ZooError raised while resolving interpolation: ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(_HINTS))
