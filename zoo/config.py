"""From a command line to objects: the only module that knows Hydra. Turns every mistake into one sentence, exit 2."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zoo.errors import ZooError
from zoo.tracking.launch import register_resolvers

Config = DictConfig
CONF = Path(__file__).resolve().parent.parent / "conf"
BAD_INPUT = 2  # exit code of a mistake a person can correct


def build(node: DictConfig) -> Any:
    """Instantiate a config node that names a ``_target_``. Raises ZooError on a key the target does not know."""
    try:
        return instantiate(node, _convert_="all")
    except HydraException as error:
        cause = error.__cause__
        while isinstance(cause, HydraException) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, ZooError):
            raise cause from error
        if isinstance(cause, TypeError):
            raise ZooError(f"{_sentence(cause)} (in the configuration of {node.get('_target_', 'a part')}).") from error
        raise


def compose(config_name: str, given: Sequence[str] = ()) -> DictConfig:
    """The configuration an entry point would get from these overrides; for benchmarks and tests."""
    _register()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose(config_name, overrides=list(given))


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The resolved configuration as plain containers, for loggers and cards."""
    resolved = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def overrides() -> list[str]:
    """The overrides of this job, as typed."""
    return list(HydraConfig.get().overrides.task)


def is_multirun() -> bool:
    """Whether this job is one of a multirun."""
    return HydraConfig.get().mode == RunMode.MULTIRUN


def machine(cfg: DictConfig) -> torch.device:
    """The device a configuration names (``auto``: a GPU if there is one); sets the number of CPU threads too."""
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)
    name = ("cuda" if torch.cuda.is_available() else "cpu") if cfg.device == "auto" else cfg.device
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ZooError(f"Unknown device {name!r}; choose one of: auto, cpu, cuda, cuda:0, ...") from error


def run_folder() -> Path:
    """Where this job writes."""
    return Path(HydraConfig.get().runtime.output_dir)


def entry_point(config_name: str, job: Callable[[DictConfig], None]) -> None:
    """Compose ``conf/<config_name>.yaml`` with the command line and run ``job``; exit code 2 on a mistake."""
    _register()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # raise instead of printing and leaving with code 1

    def guarded(cfg: DictConfig) -> None:
        try:
            job(cfg)
        except ZooError as error:
            _leave(str(error))

    try:
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(guarded)()
    except (HydraException, OmegaConfBaseException) as error:
        cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
        _leave(_sentence(error) + (f" {_sentence(cause)}" if cause and str(cause) not in str(error) else ""))
    except PermissionError as error:
        _leave(f"Cannot write to {error.filename}: {error.strerror}.")


def _register() -> None:
    register_resolvers()
    OmegaConf.register_new_resolver("repository", lambda path: str(CONF.parent / path), replace=True)


def _sentence(error: BaseException) -> str:
    """A message on one line, without Hydra's hints about its own syntax."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [
        line for line in lines if not line.startswith(("To append", "See https", "full_key", "object_type", "set the"))
    ]
    return " ".join(kept)


def _leave(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(BAD_INPUT)
