"""What a downloaded folder records of its system, checked as data before anything is composed.

An exported checkpoint states in its ``config.yaml``, as ``evaluate.overrides``, the system that it
was trained for. Users exchange such folders, so that these overrides may come from anybody. They
may choose systems and parts of the zoo by name and set plain values of their keys. They may not
name code, files outside of their folder, the environment, or keys of the job.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from zoo.base.disk.files import check_regular
from zoo.base.disk.parsing import has_control_characters, is_plain_template, parse_yaml, texts_in
from zoo.base.errors import LONGEST, ZooError, shorten_list
from zoo.base.kinds import TARGET
from zoo.config.loader import TRUSTED
from zoo.config.sources import CONF, Folders, job_loader
from zoo.config.targets import INSTANTIATE_KEYS, locate, named_targets
from zoo.config.writing import quote_text

DESCRIPTION = "config.yaml"  # of an exported checkpoint
FOLDER = "<this folder>"  # stands for the folder of the weights in its own record
# Groups that a system consists of. Overrides of these and of the languages may be recorded.
PARTS = ("system", "backbone", "policy", "history", "synthesizer")
ROOTS = (*PARTS, "convention", "source_language", "target_language")
# Exports of earlier versions also record these keys, which belong to a command line: no part of a
# system is built from them.
LEFT_OUT = ("data", "recogniser")
# Choices whose values name programs, addresses or files that run code. Only a user makes them.
USERS_CHOICES: Mapping[str, Mapping[str, str]] = {
    "system": {
        "simuleval_agent": "imports a Python file",
        "simulstream_processor": "imports a Python class",
        "replay": "reads a log instead of weights",
        "realtime": "sends audio and a key to an address",
    },
    "backbone": {"chat_server": "sends audio and a key to an address"},
    "synthesizer": {"xtts": "starts a program and reads a pickle"},
}
PROGRAM = "python"  # last component of keys that name a program, as of XTTS
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_OUTSIDE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|\w+://", re.ASCII)  # begins a path or an address
LARGEST = 1_000_000  # bytes of a ``config.yaml``
LONGEST_KEY = 200  # characters
LONGEST_LINE = 4000  # characters of an override
_PATH_PARTS = re.compile(r"[/\\]")


def record_of(
    folder: Path,
    trusted: Collection[str] = (),
    folders: Folders = (),
    *,
    replaced: Collection[str] = (),
) -> list[str]:
    """Return the overrides of a system that a folder records.

    ``<this folder>`` in them is replaced by the folder.

    Args:
        folder: Folder with ``config.yaml``, such as an exported checkpoint.
        trusted: Packages that the user names, whose classes may be recorded.
        folders: Folders of YAML files that the user names, whose choices may be recorded.
        replaced: Keys whose lines are left out, because the user sets them.

    Raises:
        ZooError: The folder has no record, or a line of the record is not allowed.
    """
    path = folder / DESCRIPTION
    lines = _recorded_lines(path)
    if not any(isinstance(line, str) and _root(line) == "system" for line in lines or ()):
        raise ZooError(
            f"{path} does not state how to evaluate the checkpoint; load a system by its name and "
            "set its backbone and weights."
        )
    kept = [line for line in lines or () if _key(line) not in replaced]
    checked = _checked_lines(path, kept, trusted, folders)
    return [line.replace(FOLDER, quote_text(str(folder))) for line in checked]


def of_system(overrides: Iterable[str]) -> list[str]:
    """Return the overrides that a folder may record: without data and options of a command."""
    return [line for line in overrides if _root(line) in ROOTS]


def check_folders(cfg: DictConfig, folders: Folders = ()) -> None:
    """Check the records of the folders that a configuration names as parts of a system.

    A command does not compose these records. A folder whose record is not allowed is refused all
    the same, before its weights are read: what wrote the record may have written the weights, too.

    Args:
        cfg: Composed configuration. Its ``trusted_packages`` are those that the user names.
        folders: Folders of YAML files that the user names outside of a job.

    Raises:
        ZooError: A line of a record is not allowed, or a record cannot be read.
    """
    trusted = cfg.get(TRUSTED) or ()
    for root in (*PARTS, "recogniser"):
        node = cfg._get_node(root) if root in cfg else None
        if not isinstance(node, DictConfig):
            continue
        for text in sorted(set(texts_in(OmegaConf.to_container(node)))):
            path = Path(text, DESCRIPTION)
            if os.path.isdir(text):  # noqa: PTH112 (as below)
                for item in Path(text).iterdir():
                    check_regular(item)
            # unlike Path.is_file, False for texts that are no path: too long, or with a NUL
            if "${" not in text and os.path.isfile(path):  # noqa: PTH113
                _checked_lines(path, _recorded_lines(path) or [], trusted, folders)


def packaged_configurations(packages: Collection[str]) -> list[Path]:
    """Return the folders ``conf`` of installed packages, in which their YAML files are found."""
    specs = [find_spec(name) for name in packages if name.isidentifier()]
    places = chain(*(spec.submodule_search_locations or () for spec in specs if spec))
    return [folder for place in places if (folder := Path(place, "conf")).is_dir()]


@cache
def registered_targets() -> frozenset[str]:
    """Return the classes of parts that the zoo's own configuration files name."""
    found: set[str] = set()
    for root in PARTS:
        for file in (CONF / root).rglob("*.yaml"):
            found |= named_targets(file.read_text(encoding="utf-8"))
    for root, choices in USERS_CHOICES.items():
        for choice in choices:
            found -= named_targets((CONF / root / f"{choice}.yaml").read_text(encoding="utf-8"))
    return frozenset(target for target in found if target.startswith("zoo."))


def _recorded_lines(path: Path) -> list[Any] | None:
    """Return the entries of ``evaluate.overrides``; None if the file has no such list.

    Raises:
        ZooError: The file is not YAML of plain values.
    """
    try:
        if not path.is_file():  # a pipe would be read for ever
            return None
        if path.stat().st_size > LARGEST:
            raise ZooError(f"{path} is larger than {LARGEST} bytes; it is no record of a system.")
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ZooError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ZooError(f"{path} is not YAML of plain values: {reason}.") from error
    evaluation = content.get("evaluate") if isinstance(content, dict) else None
    lines = evaluation.get("overrides") if isinstance(evaluation, dict) else None
    return lines if isinstance(lines, list) else None


def _checked_lines(
    path: Path, lines: list[Any], trusted: Collection[str], folders: Folders = ()
) -> list[str]:
    """Return the lines that choose or set something of a system; see ``record_of``."""
    check = LineCheck(trusted, folders)
    for line in lines:
        reason = check.objection(line) if isinstance(line, str) else "is no text"
        if reason:
            shown = repr(line)[:LONGEST] if isinstance(line, str) else f"a {type(line).__name__}"
            raise ZooError(f"{path} records {shown}, which {reason}; the checkpoint is not used.")
    return [line for line in lines if _root(line) not in LEFT_OUT]


class LineCheck:
    """Decides whether a folder may record an override.

    Args:
        trusted: Packages that the user names, whose classes may be recorded.
        folders: Folders of YAML files that the user names, whose choices may be recorded.
    """

    def __init__(self, trusted: Collection[str], folders: Folders) -> None:
        self.trusted = trusted
        self._parser = OverridesParser.create()
        self._folders = [*folders, *packaged_configurations(trusted)]
        self._loader, self._search = job_loader()

    def objection(self, line: str) -> str | None:
        """Return why a folder may not record an override; None if it may."""
        if len(line) > LONGEST_LINE:
            return f"is longer than {LONGEST_LINE} characters"
        if line.startswith("-"):
            return "is an option of a command line"
        if line[:1] in "+~":
            return "adds or removes a key"
        if _root(line) in LEFT_OUT:
            return None
        try:
            override = self._parser.parse_override(re.sub(f"=(?:{FOLDER})$", "=folder", line))
            value = None if override.is_sweep_override() else override.value()
        except (HydraException, ValueError, RecursionError):
            return "is not key=value"
        key = str(override.key_or_group)
        is_key = len(key) <= LONGEST_KEY and _NAME.fullmatch(key)
        if _root(line) not in ROOTS or not is_key:
            return f"sets no key of a system ({', '.join(ROOTS)})"
        if override.is_sweep_override():
            return "has several values"
        if choices := self._choices(key):
            return self._objection_to_choice(override, choices)
        if override.package is not None:
            return "names no group of parts"
        return self._objection_to_value(key.rpartition(".")[2], value)

    def _choices(self, group: str) -> set[str]:
        """Return the choices of a group; empty if there is no such group."""
        files = (file for folder in self._folders for file in Path(folder, group).glob("*.yaml"))
        built_in = self._loader.get_group_options(group, overrides=self._search)
        return {*built_in, *(file.stem for file in files)}

    def _objection_to_choice(self, override: Override, choices: Collection[str]) -> str | None:
        """Return why the choice of a group is not allowed; None if it is."""
        group, choice = str(override.key_or_group), override.value()
        package = override.package
        if package is not None and not package.startswith(f"{group}."):
            return f"puts a choice of {group} elsewhere"
        if isinstance(choice, dict):
            return self._objection_to_value(group, choice)
        if choice is None and group == "synthesizer":
            return None
        if not isinstance(choice, str) or choice not in choices:
            return f"names no {group} of: {shorten_list(sorted(choices))}"
        if reason := USERS_CHOICES.get(group, {}).get(choice):
            return f"chooses what only a user may choose ({group}={choice} {reason})"
        return None

    def _objection_to_value(self, name: str, value: Any) -> str | None:
        """Return why the value of a key is not allowed; None if it is.

        Args:
            name: Last component of the key.
            value: Value of the override.
        """
        if name in INSTANTIATE_KEYS:
            return self._objection_to_target(name, value)
        if name == PROGRAM:
            return "names a program"
        if isinstance(value, dict):
            items = ((str(key), item) for key, item in value.items())
        elif isinstance(value, list):
            items = ((name, item) for item in value)
        else:
            return _objection_to_text(str(value)) if isinstance(value, str) else None
        objections = (self._objection_to_value(key, item) for key, item in items)
        return next(filter(None, objections), None)

    def _objection_to_target(self, name: str, value: Any) -> str | None:
        """Return why a class may not be named; None if it may."""
        if name != TARGET:
            return f"sets {name}, which changes how a class is called"
        if isinstance(value, str) and value in registered_targets():
            return None
        package = str(value).partition(".")[0]
        if package not in self.trusted:
            return (
                f"names {str(value)!r}, which is no part of the zoo (trusted_packages=[...] lists "
                "packages of yours whose classes may be named)"
            )
        # my_zoo.policy.os.system is a function, and one that a module imports from elsewhere
        found = locate(str(value))
        if not isinstance(found, type) or found.__module__.partition(".")[0] != package:
            return f"names {value!r}, which is no class of {package}"
        return None


def _objection_to_text(text: str) -> str | None:
    """Return why a text may not be a value; None if it may."""
    if "${" in text:
        return "links to another value"
    if has_control_characters(text):
        return "contains control characters"
    if not is_plain_template(text):
        return "formats more than {name}"
    if FOLDER in text:
        return f"has {FOLDER} inside of another value"
    if _OUTSIDE.match(text) or ".." in _PATH_PARTS.split(text):
        return "names a path outside of the folder (set the key beside the folder if you want this)"
    return None


def _key(line: object) -> str | None:
    """Return what stands before the first ``=``; None for an entry that is no text."""
    return line.partition("=")[0] if isinstance(line, str) else None


def _root(line: str) -> str:
    """Return the first component of the key of an override."""
    return re.split(r"[=.@/]", line, maxsplit=1)[0]
