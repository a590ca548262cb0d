"""The files of configurations, where they are found, and how Hydra composes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import setup_globals
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from zoo.base.machine.launch import register_resolvers
from zoo.config.filling import HYDRA
from zoo.config.loader import SEARCH_PATH, Loader

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = PACKAGE / "conf"  # in a wheel; in a repository conf/ stands beside the package
CONF = INSTALLED if INSTALLED.is_dir() else PACKAGE.parent / "conf"
# Weights are not installed: an installed package expects them below the current folder.
ROOT = Path() if CONF == INSTALLED else CONF.parent
Folders = Sequence[str | Path]
COMMAND_LINE = "command-line"  # Hydra's name of the provider of --config-dir


def composed(
    config_name: str,
    given: Sequence[str],
    folders: Folders = (),
    *,
    with_hydra: bool = False,
) -> DictConfig:
    """Return the configuration; wrong overrides raise the exceptions of Hydra and OmegaConf.

    Args:
        config_name: ``train`` or ``evaluate``.
        given: overrides.
        folders: additional folders of a new loader; see ``job_loader``.
        with_hydra: whether to keep Hydra's own keys, such as ``hydra.run.dir``.
    """
    found, search = job_loader(folders)
    cfg = found.load_configuration(
        config_name, [*search, *given], run_mode=RunMode.RUN, from_shell=False
    )
    if not with_hydra:
        with open_dict(cfg):
            del cfg[HYDRA]
    return cfg


def job_loader(folders: Folders = ()) -> tuple[Loader, list[str]]:
    """Return a loader, and the overrides with which it finds the files of the running job.

    A job has a loader. Without a job, a new loader is created.

    Args:
        folders: folders in which a new loader finds files, in addition to ``conf/``.

    Returns:
        The loader, and the job's overrides of ``hydra.searchpath``.
    """
    register()
    running = GlobalHydra.instance()
    if running.is_initialized() and isinstance(found := running.config_loader(), Loader):
        given = HydraConfig.get().overrides.hydra if HydraConfig.initialized() else []
        return found, [item for item in given if item.startswith(SEARCH_PATH)]

    setup_globals()
    search_path = create_config_search_path(str(CONF))
    for folder in folders:
        address = f"file://{Path(folder).resolve()}"
        search_path.prepend(COMMAND_LINE, address, anchor=SearchPathQuery(provider="schema"))
    return Loader(search_path), []


def plain(cfg: DictConfig, *, resolve: bool = True) -> dict[str, Any]:
    """Return the configuration as plain containers.

    Args:
        cfg: configuration.
        resolve: whether to replace links by the values that they name.
    """
    values = OmegaConf.to_container(cfg, resolve=resolve)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def register() -> None:
    """Register the resolvers of links, such as ``repository``."""
    register_resolvers()
    OmegaConf.register_new_resolver("repository", lambda path: str(ROOT / path), replace=True)
    OmegaConf.register_new_resolver("training_precision", _training_precision, replace=True)
    OmegaConf.register_new_resolver("inference_dtype", _inference_dtype, replace=True)
    OmegaConf.register_new_resolver("package", lambda path: str(PACKAGE / path), replace=True)


def _training_precision(device: str) -> str:
    """Return the precision of trainings on a device; only trainings import torch for it."""
    from zoo.base.machine.devices import training_precision

    return training_precision(device)


def _inference_dtype(device: str, on_gpu: str) -> str:
    """Return the dtype of weights on a device; only a configuration with the link imports torch."""
    from zoo.base.machine.devices import inference_dtype

    return inference_dtype(device, on_gpu)
