"""Hydra's loader with two additions: all arguments of all targets, and a name for the system.

Hydra composes the chosen files, then applies the overrides. Between these two steps ``Loader`` adds
the arguments that the files leave out, so that each argument can be overridden by name. After the
second step it sets the name of the system: the choice of ``system`` and the parts that differ from
it.
"""

import copy
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import hydra._internal.hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ConfigDefault, GroupDefault, ResultDefault
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, OverrideParseException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, flag_override, open_dict
from omegaconf.errors import OmegaConfBaseException

from zoo.base.errors import ZooError, check_choice
from zoo.base.kinds import TARGET
from zoo.config import fast_hydra
from zoo.config.filling import HYDRA, create_parts, fill, is_special, keys_beside
from zoo.config.kept import Kept
from zoo.config.repository import OWN_PROVIDERS, Repository, named_packages
from zoo.config.size import check_small_parts
from zoo.config.targets import INSTANTIATE_KEYS

COMMANDS = ("evaluate", "train")  # main files that have experiments
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
Choices = dict[str, str | None]  # of groups
fast_hydra.install()
_kept = Kept()  # what all loaders read that find only the zoo's own files


def _can_be_read(source: ConfigSource) -> bool:
    """Return whether a folder or package of configurations exists and may be read."""
    if not source.available():
        return False
    return source.scheme() != "file" or os.access(source.path, os.R_OK | os.X_OK)


def install() -> None:
    """Make Hydra's entry points use ``Loader``; Hydra has no public way to name another one."""
    hydra._internal.hydra.ConfigLoaderImpl = Loader  # type: ignore[attr-defined]


class Loader(ConfigLoaderImpl):
    """Hydra's loader for files that contain only the values that differ from Python's defaults."""

    _given: Sequence[Override] = ()

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self._files = self.repository = Repository(config_search_path)
        self._kept = Kept()

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
        """Add the folders of ``hydra.searchpath``. Raises ZooError if one cannot be read."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Hydra only warns
            super()._process_config_searchpath(config_name, parsed_overrides, repo)
        for source in repo.get_sources():
            if source.provider not in OWN_PROVIDERS and not _can_be_read(source):
                raise ZooError(
                    f"There is no folder {source.path} ({source.scheme()}) with configurations "
                    f"that can be read; correct {SEARCH_PATH} or --config-dir."
                )

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        cfg, filled = self._merged(defaults, repo)
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
            if not filled:
                fill(cfg, path[:1])
            create_parts(cfg, path)
            check_kind(cfg, item)
            below = None if path[0] == HYDRA else mapping_of(item)  # Hydra checks its own keys
            unknown = _unknown(cfg, path, below)
            if unknown is not None and not _adds(item):
                raise ConfigCompositionException(f"Could not override '{unknown}'.")
        if not filled:
            fill(cfg, cfg)
        return cfg

    def _merged(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> tuple[DictConfig, bool]:
        """Return what the files of a list give together, and whether no argument is missing.

        Of the zoo's own files, what was read before is kept: Hydra's files, which begin each list,
        and each list. The missing arguments of their targets are added; these are recorded, so that
        nothing is imported.
        """
        files = repo.delegate if isinstance(repo, CachingConfigRepository) else repo
        if not isinstance(files, Repository) or not files.is_own:
            return super()._compose_config_from_defaults_list(defaults, repo), False
        key, first = (*files.addresses, *map(_key, defaults)), _first_after_hydra(defaults)
        cfg: DictConfig | None = _kept.get(key)
        if cfg is not None:
            return cfg, True

        hydra_key = (*files.addresses, *map(_key, defaults[:first]))
        cfg = _kept.get(hydra_key)
        if cfg is None:
            cfg = super()._compose_config_from_defaults_list(defaults[:first], repo)
            _kept.keep(hydra_key, cfg, files.states)
        read = [self._load_single_config(default, repo) for default in defaults[first:]]
        try:
            with flag_override(cfg, "no_deepcopy_set_nodes", True):
                cfg.merge_with(*(one.config for one in read))
            usual = not any(one.is_schema_source for one in read)  # a class that a user registers
        except OmegaConfBaseException:  # Hydra's error names the file
            usual = False
        if not usual:
            return super()._compose_config_from_defaults_list(defaults, repo), False
        fill(cfg, cfg)
        _kept.keep(key, cfg, files.states)
        return cfg, True

    def _load_single_config(self, default: ResultDefault, repo: IConfigRepository) -> ConfigResult:
        """Return what a file adds; Hydra changes it unless it belongs to a part of its own."""
        found = super()._load_single_config(default, repo)
        read = repo.load_config(str(default.config_path))
        if read is not None and found.config is read.config:
            found = copy.copy(found)
            found.config = copy.deepcopy(found.config)
        return found

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

    def choices(self, config_name: str | None, overrides: Sequence[str]) -> Choices:
        """Return the choice of every group under these overrides."""
        searched = any(item.startswith(SEARCH_PATH) for item in overrides)
        kept = _kept if self._files.is_own and not searched else self._kept
        key = (*self._files.addresses, config_name, *overrides)
        found: Choices | None = kept.get(key)
        if found is None:
            defaults = self.compute_defaults_list(config_name, list(overrides), RunMode.RUN)
            found = dict(defaults.overrides.known_choices)
            kept.keep(key, found, self._files.states)
        return found


def _key(default: ResultDefault) -> tuple[str | bool | None, ...]:
    """Return what identifies a file in a list, and where its content belongs."""
    return default.config_path, default.package, default.primary, default.is_self


def _first_after_hydra(defaults: Sequence[ResultDefault]) -> int:
    """Return the number of Hydra's own files, which begin a list."""
    paths = [str(default.config_path) for default in defaults]
    return next((at for at, path in enumerate(paths) if not path.startswith("hydra/")), len(paths))


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
        if isinstance(node, ListConfig) and not is_special(node) and not name.isdigit():
            raise ZooError(
                f"{override.input_line}: {parent} is a list, without keys; set all of it, such as "
                f"{parent}=[A,B]."
            )
        if not isinstance(node, DictConfig) or is_special(node):
            return
        node = node._get_node(name, validate_access=False)
        parent = f"{parent}.{name}".lstrip(".")
    if not isinstance(node, DictConfig | ListConfig) or is_special(node):
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
        if not isinstance(node, DictConfig) or is_special(node):
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
