"""Hydra's loader with two additions: all arguments of all targets, and a name for the system.

Hydra composes the chosen files, then applies the overrides. Between these two steps ``Loader`` adds
the arguments that the files leave out, so that each argument can be overridden by name. After the
second step it sets the name of the system: the choice of ``system`` and the parts that differ from
it.
"""

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import hydra._internal.hydra
import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import (
    CachingConfigRepository,
    ConfigRepository,
    IConfigRepository,
)
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ConfigDefault, GroupDefault, ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, OverrideParseException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict

from zoo.config.fast_defaults import skip_unused_maps
from zoo.config.inspection import Argument
from zoo.config.signatures import arguments_of_target, complete, part_of, recorded_arguments
from zoo.config.size import check_small_parts
from zoo.config.targets import INSTANTIATE_KEYS, OPTIMIZERS, OWN_PACKAGES, TARGET, named_targets
from zoo.disk.parsing import parse_yaml
from zoo.errors import ZooError, check_choice

COMMANDS = ("evaluate", "train")  # main files that have experiments
HYDRA = "hydra"  # key of Hydra's own configuration
PARTS = (
    "backbone",
    "policy",
    "history",
    "synthesizer",
    "playback",
    "context",
    "convention",
)  # groups that a system chooses
SEVERAL = ("metric", "experiment")  # groups of which no choice may be named
SEARCH_PATH = "hydra.searchpath"
TRUSTED = "trusted_packages"  # key of the packages, besides the zoo, whose classes are created
OWN_PROVIDERS = ("hydra", "main", "schema")  # Hydra's names of its own files and of conf/
skip_unused_maps()
# Content of configuration files by provider, path, time of the last change and size.
_parsed: dict[tuple[str, Path, int, int], ConfigResult | None] = {}


def install() -> None:
    """Make Hydra's entry points use ``Loader``; Hydra has no public way to name another one."""
    hydra._internal.hydra.ConfigLoaderImpl = Loader  # type: ignore[attr-defined]


class Repository(ConfigRepository):
    """Hydra's repository of files, which it copies for each list of overrides.

    A copy shares all but the list of the sources, which Hydra replaces. Hydra's copies, of all
    registered configurations, take four fifths of the time of ``--help``.

    Attributes:
        packages: packages of the targets in files that the user's command line has found.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.packages: set[str] = set()

    def __deepcopy__(self, memo: object) -> "Repository":
        return copy.copy(self)

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Return what a file contains; a file that has not changed is parsed only once.

        The name of the system and the systems of a comparison read the same files again.
        """
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        found = self._load(source, config_path)
        if source is not None and found is not None and source.provider not in OWN_PROVIDERS:
            self.packages |= named_packages(OmegaConf.to_yaml(found.config))
        return found

    def _load(self, source: ConfigSource | None, config_path: str) -> ConfigResult | None:
        """Return what a file of a source contains, see ``load_config``."""
        if source is None or source.scheme() != "file":
            return super().load_config(config_path)
        path = Path(source.path, source._normalize_file_name(config_path))
        state = path.stat()
        key = (source.provider, path, state.st_mtime_ns, state.st_size)
        if key not in _parsed:
            if source.provider not in OWN_PROVIDERS:
                _check_file(path)
            _parsed[key] = super().load_config(config_path)
        return copy.deepcopy(_parsed[key])  # Hydra changes it


def _check_file(path: Path) -> None:
    """Raise ZooError for a file of YAML with equal keys, or with aliases for too many values.

    OmegaConf would write each alias out.
    """
    try:
        parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ZooError(f"{path} is not read: {' '.join(str(error).split())}.") from error


class Loader(ConfigLoaderImpl):
    """Hydra's loader for files that contain only the values that differ from Python's defaults."""

    _given: Sequence[Override] = ()

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self._files = self.repository = Repository(config_search_path)
        self._choices: dict[tuple[str | None, ...], dict[str, str | None]] = {}

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        found = super()._parse_overrides_and_create_caching_repo(config_name, overrides)
        self._given = found[0]
        for item in self._given:
            if not item.key_or_group:
                raise OverrideParseException(str(item.input_line), "no key")
            if found[1].group_exists(item.key_or_group):
                check_choice_of_group(item, found[1].get_group_options(item.key_or_group))
        return found

    def _process_config_searchpath(
        self,
        config_name: str | None,
        parsed_overrides: list[Override],
        repo: CachingConfigRepository,
    ) -> None:
        """Add the folders of ``hydra.searchpath``. Raises ZooError if one does not exist."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Hydra only warns
            super()._process_config_searchpath(config_name, parsed_overrides, repo)
        for source in repo.get_sources():
            if source.provider not in OWN_PROVIDERS and not source.available():
                raise ZooError(
                    f"There is no folder {source.path} ({source.scheme()}) with configurations; "
                    f"correct {SEARCH_PATH} or --config-dir."
                )

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        cfg = super()._compose_config_from_defaults_list(defaults, repo)
        for item in self._given:
            key = str(item.key_or_group)
            needed = repo.group_exists(key) or key in cfg or key.endswith(f".{TARGET}")
            if item.is_delete() and needed:
                raise ZooError(f"~{key} removes what is needed; set {key} to another value.")
        changes = [
            item
            for item in self._given
            if not repo.group_exists(item.key_or_group) or mapping_of(item) is not None
        ]
        # Mistyped keys are found here, before targets are imported that are not recorded.
        for item in changes:
            path = item.key_or_group.split(".")
            known = keys_beside(cfg, path)
            if known is not None and path[-1] not in known and not _adds(item):
                raise ConfigCompositionException(f"Could not override '{item.key_or_group}'.")
        for item in sorted(changes, key=lambda item: _root(item) in cfg):
            path = item.key_or_group.split(".")
            if repo.group_exists(item.key_or_group) and path[0] not in cfg:  # as of metric={a: 1}
                raise no_choice(item, repo.get_group_options(item.key_or_group))
            fill(cfg, path[:1])
            create_parts(cfg, path)
            check_kind(cfg, item)
            below = None if path[0] == HYDRA else mapping_of(item)  # Hydra checks its own keys
            unknown = _unknown(cfg, path, below)
            if unknown is not None and not _adds(item):
                raise ConfigCompositionException(f"Could not override '{unknown}'.")
        fill(cfg, cfg)
        return cfg

    def _load_configuration_impl(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        cfg = super()._load_configuration_impl(
            config_name, overrides, run_mode, from_shell, validate_sweep_overrides
        )
        for item in self._given:
            item.config_loader = self  # glob(...) stands for choices of a group
            if item.is_discrete_sweep() and next(iter(item.sweep_iterator()), None) is None:
                raise ZooError(f"{item.input_line} has no value, so that no job would run.")
        self._check_experiment(config_name, cfg)
        check_small_parts(cfg, cfg.hydra.runtime.choices, PARTS)
        with open_dict(cfg):
            cfg[TRUSTED] = self._trusted_packages(cfg)
            fill(cfg, cfg)  # an override may have named a part
            if isinstance(cfg.get("system"), DictConfig) and OmegaConf.is_missing(
                cfg.system, "name"
            ):
                cfg.system.name = self._system_name(config_name, cfg, overrides)
        return cfg

    def _system_name(
        self, config_name: str | None, cfg: DictConfig, overrides: Sequence[str]
    ) -> str:
        """Return the choice of ``system`` and the parts that differ from it."""
        chosen = {str(key): value for key, value in cfg.hydra.runtime.choices.items()}
        system = str(chosen["system"])
        groups = {str(item.key_or_group) for item in self._given} & chosen.keys()
        if groups <= {"system"}:  # composing the preset would choose the same parts
            return system
        search = [item for item in overrides if item.startswith(SEARCH_PATH)]
        preset = self.choices(config_name, [*search, f"system={system}"])
        return row_name(system, departures(chosen, preset))

    def _check_experiment(self, config_name: str | None, cfg: DictConfig) -> None:
        """Raise ZooError if an experiment sets a part that only another command has."""
        typed = [item.value() for item in self._given if item.key_or_group == "experiment"]
        chosen = cfg.hydra.runtime.choices.get("experiment") or (typed[-1] if typed else None)
        if not chosen:
            return
        experiment = ", ".join(chosen) if isinstance(chosen, list | ListConfig) else str(chosen)
        own = self.keys_of(config_name)
        foreign = [key for name in COMMANDS for key in self.keys_of(name) if key not in own]
        for key in (str(key) for key in cfg if key in foreign):
            raise ZooError(
                f"Experiment {experiment!r} is not for {config_name}.py, which has no {key!r}."
            )

    def keys_of(self, config_name: str | None) -> list[str]:
        """Return the groups from which a main file chooses, and its keys."""
        found = self.repository.load_config(config_name) if config_name else None
        if found is None:
            return []
        groups = [one.group for one in found.defaults_list or () if isinstance(one, GroupDefault)]
        return [*(group for group in groups if group), *map(str, found.config)]

    def _trusted_packages(self, cfg: DictConfig) -> list[str]:
        """Return the packages that the user names, by the key or by targets that the user sets.

        Raises ZooError if the key is no list of names.
        """
        listed = cfg.get(TRUSTED, [])
        if not isinstance(listed, ListConfig | list) or not all(
            isinstance(name, str) and name.isidentifier() for name in listed
        ):
            raise ZooError(f"{TRUSTED} must be a list of packages such as [my_zoo], not {listed}.")
        typed = (named_packages(str(item.input_line)) for item in self._given)
        return sorted({*listed, *self._files.packages, *chain(*typed)})

    def owners(self, group: str, key: str, overrides: Sequence[str]) -> Iterator[str]:
        """Yield the choices of a group that have a key, by files and recorded signatures.

        Args:
            group: group, such as ``policy``.
            key: full key, such as ``policy.frames``.
            overrides: overrides of ``hydra.searchpath``.
        """
        _, repo = self._parse_overrides_and_create_caching_repo(None, list(overrides))
        _, *path = key.split(".")
        for choice in repo.get_group_options(group):
            known = keys_beside(_files(repo, group, choice), path)
            if known is not None and path[-1] in known:
                yield choice

    def choices(self, config_name: str | None, overrides: Sequence[str]) -> dict[str, str | None]:
        """Return the choice of every group under these overrides."""
        key = (config_name, *overrides)
        if key not in self._choices:
            found = self.compute_defaults_list(config_name, list(overrides), RunMode.RUN)
            self._choices[key] = dict(found.overrides.known_choices)
        return self._choices[key]


def departures(chosen: Mapping[str, str | None], preset: Mapping[str, str | None]) -> list[str]:
    """Return the choices of parts that differ from those of a preset, such as ``policy=alignatt``.

    Args:
        chosen: choice of each group.
        preset: choice of each group in the preset.
    """
    found: list[str] = []
    for part in PARTS:
        for group, choice in chosen.items():
            # Hydra writes a group with another key than its folder as ``folder@key.of.the.node``
            folder, _, key = group.partition("@")
            if folder == part and choice != preset.get(group):
                name = (key or folder).rpartition(".")[2]
                found.append(f"{name}={choice}")
    return found


def row_name(name: str, departures: Sequence[str]) -> str:
    """Return a name with the choices that differ, such as ``local_agreement+policy=wait_k``."""
    return "+".join([name, *departures])


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
        node = child if isinstance(child, DictConfig) and not _is_special(child) else None
        part = (node.get(TARGET) if node is not None else None) or (
            part_of(argument) if argument else None
        )
    known = recorded_arguments(part) if part else None
    if known is None or known.takes_any:
        return None
    written = [str(name) for name in node] if node is not None else []
    return list(dict.fromkeys([*known.named, *written, *INSTANTIATE_KEYS]))


def _is_special(node: DictConfig | ListConfig) -> bool:
    """Return whether a node is null, a link to another node, or must be given."""
    return bool(node._is_none() or node._is_interpolation() or node._is_missing())


def _files(repo: IConfigRepository, group: str, choice: str) -> DictConfig:
    """Return the content of a choice of a group, after that of the choices that it begins with."""
    found = repo.load_config(f"{group}/{choice}")
    if found is None or not isinstance(found.config, DictConfig):
        return OmegaConf.create()
    begins = [
        _files(repo, group, str(item.path))
        for item in found.defaults_list or ()
        if isinstance(item, ConfigDefault) and not item.is_self()
    ]
    config = found.config
    if found.header.get("package") == "_global_":
        config = config.get(group)
        if not isinstance(config, DictConfig):
            config = OmegaConf.create()
    merged = OmegaConf.merge(*begins, config)
    assert isinstance(merged, DictConfig)
    return merged


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
            cfg[name] = complete(OmegaConf.to_container(node), where=f"{name!s}.")


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


def check_choice_of_group(override: Override, choices: Sequence[str]) -> None:
    """Check that the override of a group names choices.

    Args:
        override: override of a group.
        choices: choices of the group.

    Raises:
        ZooError: the override is a list for a system, a list of other names, or no name.
    """
    key = override.key_or_group
    value: Any = None if override.is_sweep_override() else override.value()
    if isinstance(value, list) and key != "system":
        some = value or key in SEVERAL
        if not some or not all(isinstance(name, str) for name in value):
            raise no_choice(override, choices)
        for name in value:
            check_choice(key, name, choices)
        return
    if value is None or isinstance(value, str | dict):
        return  # a mapping overrides values of the choice; Hydra refuses null
    raise no_choice(override, choices)


def no_choice(override: Override, choices: Sequence[str]) -> ZooError:
    """Return the error for an override of a group that names none of its choices."""
    group = override.key_or_group
    return ZooError(
        f"{override.input_line} must name a choice of {group}, one of: {', '.join(choices)}."
    )


def check_kind(cfg: DictConfig, override: Override) -> None:
    """Check that the value of an override is a list for a list, and a mapping for a part.

    Args:
        cfg: configuration before the override.
        override: override of a key.

    Raises:
        ZooError: the value is of another kind, or the key is below a list.
    """
    key = str(override.key_or_group)
    node: Any = cfg
    parent = ""
    for name in key.split("."):
        if isinstance(node, ListConfig) and not _is_special(node) and not name.isdigit():
            raise ZooError(
                f"{override.input_line}: {parent} is a list, without keys; set all of it, such as "
                f"{parent}=[A,B]."
            )
        if not isinstance(node, DictConfig) or _is_special(node):
            return
        node = node._get_node(name, validate_access=False)
        parent = f"{parent}.{name}".lstrip(".")
    if not isinstance(node, DictConfig | ListConfig) or _is_special(node):
        return

    if override.is_sweep_override():
        return
    value = override.value()
    if isinstance(node, ListConfig) and isinstance(value, dict):
        raise ZooError(f"{override.input_line}: {key} takes a list such as [A,B], not a mapping.")
    is_part = TARGET in node and "." not in key  # other parts may also be null or have a name
    if isinstance(node, DictConfig) and (
        isinstance(value, list) or (is_part and not isinstance(value, dict))
    ):
        below = [str(name) for name in node if name not in INSTANTIATE_KEYS]
        example = f" such as {{{below[0]}: VALUE}}" if below else ""
        raise ZooError(f"{override.input_line}: {key} takes a mapping{example}.")


def named_packages(text: str) -> set[str]:
    """Return the packages, besides the zoo, of the targets in an override or a YAML file."""
    targets = (target for target in named_targets(text) if not target.startswith(OPTIMIZERS))
    packages = {target.partition(".")[0] for target in targets}
    return packages.difference(OWN_PACKAGES)


def _root(override: Override) -> str:
    """Return the first component of an override's key."""
    return str(override.key_or_group).partition(".")[0]


def mapping_of(override: Override) -> Mapping[str, Any] | None:
    """Return the value of an override that sets a mapping; None for any other override."""
    value: Any = None if override.is_sweep_override() else override.value()
    return value if isinstance(value, dict) else None


def _unknown(cfg: DictConfig, path: Sequence[str], value: Mapping[str, Any] | None) -> str | None:
    """Return the first key of an override that does not exist; None if all keys exist.

    Keys below a value that is not a mapping are not checked.

    Args:
        cfg: configuration before the override.
        path: components of the key of the override.
        value: value of the override, if it is a mapping.
    """
    node: Any = cfg
    for name in path:
        if not isinstance(node, DictConfig) or _is_special(node):
            return None
        node = node._get_node(name, validate_access=False)
    if node is None:
        return ".".join(path)
    for name, below in (value or {}).items():
        inner = below if isinstance(below, dict) else None
        if isinstance(node, DictConfig) and (found := _unknown(node, [str(name)], inner)):
            return ".".join([*path, found])
    return None


def _adds(override: Override) -> bool:
    """Return whether an override begins with ``+``, so that its key need not exist."""
    return bool(override.is_add() or override.is_force_add())
