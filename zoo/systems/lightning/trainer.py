"""Creation of Lightning's Trainer, for trainings and evaluations."""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import lightning
import torch
from lightning.fabric.plugins import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback

from zoo.base.errors import ZooError, shorten
from zoo.base.machine.cores import usable_cores
from zoo.base.machine.devices import device_named
from zoo.base.machine.launcher import place
from zoo.config.signatures import arguments_of_target

# Beginnings of warnings, as regular expressions, that a user can do nothing about.
MISLEADING = (
    # with PyTorch 2.13, Lightning's walks through batches print it at every evaluation
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    # a callback streams the development talks
    r"You defined a `validation_step` but have no `val_dataloader`",
    # the callbacks of a training log at intervals of their own
    r"The number of training batches \(\d+\) is smaller than the logging interval",
)


def create_trainer(options: Mapping[str, Any], callbacks: Sequence[Callback]) -> lightning.Trainer:
    """Create a Trainer.

    Args:
        options: Arguments of the Trainer. Its callbacks follow ``callbacks``.
        callbacks: Callbacks of the job.

    Raises:
        ZooError: There are too few CPU cores, or Lightning refuses an option.
    """
    _check_cores(options)
    for message in MISLEADING:
        warnings.filterwarnings("ignore", message)
    # Lightning's own handler prints again what the handlers of the root logger print.
    logging.getLogger("lightning").removeHandler(lightning._console)
    every = [*callbacks, *(options.get("callbacks") or ())]
    plugins = _with_environment(options.get("plugins"))
    try:
        return lightning.Trainer(**{**options, "callbacks": every, "plugins": plugins})
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise ZooError(f"Lightning refuses the trainer: {' '.join(str(error).split())}") from error


def _check_cores(options: Mapping[str, Any]) -> None:
    """Raise ZooError if a Trainer would start more processes on the CPU than there are cores.

    Two are allowed on any machine, for trials of several ranks, and so are those of a launcher.
    """
    devices, most = str(options.get("devices", 1)), max(2, usable_cores())
    count = int(devices) if devices.isdecimal() else 1
    if options.get("accelerator") == "cpu" and count > most and count != place().per_node:
        raise ZooError(
            f"trainer.devices={shorten(devices)} would start {shorten(devices)} processes on the "
            f"CPU, and this process may use {usable_cores()} cores; choose at most {most}."
        )


def _with_environment(plugins: Any) -> Any:
    """Return the plugins of a Trainer with Lightning's plain environment in a shell of SLURM.

    Without it, Lightning would wait for other tasks of the allocation; see ``machine.launcher``.
    """
    if place().launcher != "other" or "SLURM_NTASKS" not in os.environ:
        return plugins
    several = [] if plugins is None else plugins
    several = list(several) if isinstance(several, Sequence) else [several]
    if any(isinstance(one, ClusterEnvironment) for one in several):
        return plugins
    return [*several, LightningEnvironment()]


@contextmanager
def without_messages() -> Iterator[None]:
    """Leave out what Lightning prints about its Trainers, such as the devices, in the block."""
    log = logging.getLogger("lightning.pytorch.utilities.rank_zero")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)


def check_options(options: Mapping[str, Any], set_by: Mapping[str, str], *, job: str) -> None:
    """Check that the user has not set an option that the job sets itself.

    Args:
        options: The user's arguments of the Trainer.
        set_by: For each argument that the job sets, what the user can do instead or the reason.
        job: Noun of the job, such as training.

    Raises:
        ZooError: An option differs from Lightning's default.
    """
    defaults = arguments_of_target(lightning.Trainer).named
    for name, advice in set_by.items():
        if name in options and options[name] != defaults[name].default:
            raise ZooError(f"trainer.{name} is set by the {job}; {advice}.")


def on_devices(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the accelerator, the devices and the number of nodes of the job.

    The accelerator may be a device with an index, such as ``cuda:1``. A launcher such as torchrun
    or srun determines the number of ranks if ``devices`` and ``num_nodes`` are 1.

    Args:
        options: The user's arguments of the Trainer.

    Raises:
        ZooError: The index of the device is no number.
    """
    devices, nodes = options.get("devices", 1), options.get("num_nodes", 1)
    if (devices, nodes) == (1, 1):
        here = place()
        devices, nodes = here.per_node, here.nodes

    accelerator = options.get("accelerator", "auto")
    if isinstance(accelerator, str):
        accelerator = device_named(accelerator)
    if isinstance(accelerator, str) and ":" in accelerator:
        accelerator, _, index = accelerator.partition(":")
        if not index.isdecimal():
            raise ZooError(
                f"trainer.accelerator is '{accelerator}:{index}'; write the number of a device, "
                f"such as {accelerator}:0."
            )
        devices = [int(index)]
    return {**options, "accelerator": accelerator, "devices": devices, "num_nodes": nodes}


def count_ranks(options: Mapping[str, Any]) -> int:
    """Return the number of ranks that a Trainer with these arguments has, over all nodes.

    Args:
        options: The user's arguments of the Trainer.
    """
    options = on_devices(options)
    devices = options["devices"]
    if isinstance(devices, str):
        devices = devices.split(",") if "," in devices else devices
    if isinstance(devices, Sequence) and not isinstance(devices, str):
        count = len(devices)
    elif str(devices) in ("auto", "-1"):
        count = torch.cuda.device_count() if options["accelerator"] in ("cuda", "gpu") else 1
    else:
        count = int(devices)
    return count * int(options["num_nodes"])


def is_single(options: Mapping[str, Any]) -> bool:
    """Return whether options from ``on_devices`` name one device."""
    devices = options["devices"]
    single = len(devices) == 1 if isinstance(devices, list) else str(devices) == "1"
    return single and options["num_nodes"] == 1
