"""Hydra's loader with two additions: all arguments of all targets, and a name for the system.

Hydra composes the chosen files, then applies the overrides. Between these two steps ``Loader`` adds
the arguments that the files leave out, so that each argument can be overridden by name. After the
second step it sets the name of the system: the choice of ``system`` and the parts that differ from
it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import hydra._internal.hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from zoo.errors import ZooError
from zoo.signatures import TARGET, Argument, arguments, complete, located, part_of, path_of

HYDRA = "hydra"  # key of Hydra's own configuration
PARTS = (
    "backbone",
    "policy",
    "history",
    "synthesizer",
    "convention",
)  # groups that a system chooses
SEARCH_PATH = "hydra.searchpath"


def install(*, show_help: bool = False) -> None:
    """Make Hydra's entry points use ``Loader``.

    Args:
        show_help: whether the entry point only shows its help, for which no part is imported.
    """
    kind = HelpLoader if show_help else Loader
    hydra._internal.hydra.ConfigLoaderImpl = kind  # type: ignore[attr-defined]


class Loader(ConfigLoaderImpl):
    """Hydra's loader for files that contain only the values that differ from Python's defaults.

    Attributes:
        filled: top-level nodes that receive the arguments that the files leave out, besides those
            that overrides name; None: all nodes. The targets of other nodes are not imported.
    """

    filled: Collection[str] | None = None
    _given: Sequence[Override] = ()

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        found = super()._parse_overrides_and_create_caching_repo(config_name, overrides)
        self._given = found[0]
        return found

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        cfg = super()._compose_config_from_defaults_list(defaults, repo)
        for item in self._given:
            key = str(item.key_or_group)
            needed = repo.group_exists(key) or key in cfg or key.endswith(f".{TARGET}")
            if item.is_delete() and needed:
                raise ZooError(f"~{key} removes what is needed; set {key} to another value.")
        changes = [item for item in self._given if not repo.group_exists(item.key_or_group)]
        # Mistyped keys are found here, before the slow imports of all other parts.
        for item in sorted(changes, key=lambda item: _root(item) in cfg):
            path = item.key_or_group.split(".")
            fill(cfg, path[:1])
            create_parts(cfg, path)
            if _is_unknown(cfg, path) and not _adds(item):
                raise ConfigCompositionException(f"Could not override '{item.key_or_group}'.")
        fill(cfg, cfg if self.filled is None else self.filled)
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
        with open_dict(cfg):
            # an override may have named a part
            named = {_root(item) for item in self._given}
            fill(cfg, cfg if self.filled is None else {*self.filled, *named})
            if isinstance(cfg.get("system"), DictConfig) and OmegaConf.is_missing(
                cfg.system, "name"
            ):
                search = [item for item in overrides if item.startswith(SEARCH_PATH)]
                chosen = {str(key): value for key, value in cfg.hydra.runtime.choices.items()}
                preset = self.choices(config_name, [*search, f"system={chosen['system']}"])
                cfg.system.name = row_name(str(chosen["system"]), departures(chosen, preset))
        return cfg

    def choices(self, config_name: str | None, overrides: Sequence[str]) -> dict[str, str | None]:
        """Return the choice of every group under these overrides."""
        found = self.compute_defaults_list(config_name, list(overrides), RunMode.RUN)
        return dict(found.overrides.known_choices)


class HelpLoader(Loader):
    """A loader that shows the values of the files."""

    filled = ()


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
            argument = arguments(located(node[TARGET])).get(str(name))
            if part := part_of(argument or Argument(None, None)):
                node[name] = complete({TARGET: path_of(part)})
        node = node._get_node(name)


def _root(override: Override) -> str:
    """Return the first component of an override's key."""
    return str(override.key_or_group).partition(".")[0]


def _is_unknown(cfg: DictConfig, path: Sequence[str]) -> bool:
    """Return whether a key does not exist; False below a value that is not a mapping."""
    node: Any = cfg
    for name in path:
        if not isinstance(node, DictConfig) or node._is_none() or node._is_interpolation():
            return False
        node = node._get_node(name)
    return node is None


def _adds(override: Override) -> bool:
    """Return whether an override begins with ``+``, so that its key need not exist."""
    return bool(override.is_add() or override.is_force_add())
