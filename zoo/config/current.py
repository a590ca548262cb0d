"""The job that runs now: its overrides, choices, folder and device."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from zoo.base.errors import unknown_choice
from zoo.base.machine.cores import check_machine
from zoo.config.loader import SEARCH_PATH
from zoo.config.sources import COMMAND_LINE

if TYPE_CHECKING:
    import torch  # the import takes seconds; a mistyped key is reported before it


def overrides() -> list[str]:
    """Return the overrides of this job, as typed."""
    # Without resolve=False, a link such as ${size.phi4} in an override becomes its value.
    typed: Any = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)
    return list(typed)


def search_arguments() -> list[str]:
    """Return the arguments of this job's command line that name folders of YAML files.

    They are ``--config-dir`` with an absolute path and overrides of ``hydra.searchpath``, both
    quoted for a shell.
    """
    job = HydraConfig.get()
    folders = [
        f"--config-dir={source.path}"
        for source in job.runtime.config_sources
        if source.provider == COMMAND_LINE
    ]
    search = [item for item in job.overrides.hydra if item.startswith(SEARCH_PATH)]
    return [shlex.quote(argument) for argument in (*folders, *search)]


def choice_overrides(*groups: str) -> list[str]:
    """Return the choices of this job as overrides ``group=choice``."""
    choices = HydraConfig.get().runtime.choices
    return [f"{group}={choices[group]}" for group in groups]


def is_multirun() -> bool:
    """Return whether this job is one of a multirun."""
    return bool(HydraConfig.get().mode == RunMode.MULTIRUN)


def machine(cfg: DictConfig) -> "torch.device":
    """Return the device that a configuration names; set the number of CPU threads and TF32.

    ``auto`` is a GPU if there is one, else the CPU.

    Raises:
        ZooError: this machine lacks the device, or the seed or the number of threads is wrong.
    """
    import torch

    from zoo.base.machine.devices import allow_tf32, device_named

    check_machine(seed=cfg.get("seed", 0), threads=cfg.threads, device=cfg.device)
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)

    name = device_named(cfg.device)
    try:
        device = torch.device(name)
        # PyTorch accepts the name of an absent device; an operation on that device raises
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
        raise unknown_choice("device", name, ["auto", "cpu", *gpus]) from error
    if device.type == "cuda":
        allow_tf32()
    return device


def run_folder() -> Path:
    """Return the folder that this job writes to."""
    return Path(HydraConfig.get().runtime.output_dir)
