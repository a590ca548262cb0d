"""Hydra's loader with two additions: all arguments of all targets, and a name for the system.

Hydra composes the chosen files, then applies the overrides. Between these two steps ``Loader`` adds
the arguments that the files leave out, so that each one can be overridden by name; afterwards it
names the system after its parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import hydra._internal.hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

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


def install() -> None:
    """Make Hydra's entry points use ``Loader``."""
    hydra._internal.hydra.ConfigLoaderImpl = Loader  # type: ignore[attr-defined]


class Loader(ConfigLoaderImpl):
    """Hydra's loader, for files that give only what differs from Python's defaults.

    Attributes:
        partial: compose only what the files give; imports no target.
    """

    partial = False
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
        changes = [item for item in self._given if not repo.group_exists(item.key_or_group)]
        unknown = [item for item in changes if _root(item) not in cfg and not _adds(item)]
        if self.partial:
            return cfg

        for item in unknown:  # refused here, before the slow imports of all parts
            if not item.is_delete():
                raise ConfigCompositionException(f"Could not override '{item.key_or_group}'.")
        if not unknown:
            fill(cfg)
            for item in changes:
                create_parts(cfg, item.key_or_group.split("."))
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
        if self.partial:
            return cfg

        with open_dict(cfg):
            fill(cfg)  # parts that an override has named
            if isinstance(cfg.get("system"), DictConfig) and OmegaConf.is_missing(
                cfg.system, "name"
            ):
                search = [item for item in overrides if item.startswith(SEARCH_PATH)]
                chosen = {str(key): value for key, value in cfg.hydra.runtime.choices.items()}
                preset = self.choices(config_name, [*search, f"system={chosen['system']}"])
                cfg.system.name = row_name(str(chosen["system"]), departures(chosen, preset))
        return cfg

    def choices(self, config_name: str | None, overrides: Sequence[str]) -> dict[str, str | None]:
        """The choice of every group under these overrides."""
        found = self.compute_defaults_list(config_name, list(overrides), RunMode.RUN)
        return dict(found.overrides.known_choices)


def departures(chosen: Mapping[str, str | None], preset: Mapping[str, str | None]) -> list[str]:
    """``policy=alignatt`` and its like: the choices of parts that differ from a preset's."""
    changed = [group for group, choice in chosen.items() if choice != preset.get(group)]
    return [
        f"{group.rpartition('@')[2].rpartition('.')[2]}={chosen[group]}"
        for part in PARTS
        for group in changed
        if group.partition("@")[0] == part
    ]


def row_name(name: str, departures: Sequence[str]) -> str:
    """``local_agreement+policy=wait_k``: a name and the choices that it does not stand for."""
    return "+".join([name, *departures])


def fill(cfg: DictConfig) -> None:
    """Add the missing arguments of all targets, in place.

    Raises:
        ZooError: if a target cannot be imported.
    """
    for name in cfg:
        node = cfg._get_node(name)
        if name != HYDRA and isinstance(node, DictConfig):
            cfg[name] = complete(OmegaConf.to_container(node), where=f"{name!s}.")


def create_parts(cfg: DictConfig, path: Sequence[str]) -> None:
    """Create the parts on the path to a key that are null: ``lora`` in ``backbone.lora.rank``."""
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
    """The first component of an override's key."""
    return str(override.key_or_group).partition(".")[0]


def _adds(override: Override) -> bool:
    """Whether an override begins with ``+``."""
    return bool(override.is_add() or override.is_force_add())
