"""Lightning's Trainer for streaming evaluations, on one device or on several ranks."""

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

from zoo.tracking.launch import external_ranks
from zoo.trainer import create_trainer

# What an evaluation sets itself: it logs and saves by its own means.
FIXED = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
}


class _PatientLauncher(_SubprocessScriptLauncher):
    """Starts a process per local rank and lets the others go on if one of them dies.

    Lightning's launcher kills all processes as soon as one has died.
    """

    def launch(
        self, function: Callable[..., Any], *args: Any, trainer: Any = None, **kwargs: Any
    ) -> Any:
        self.cluster_environment.validate_settings(
            num_devices=self.num_processes, num_nodes=self.num_nodes
        )
        if not self.cluster_environment.creates_processes_externally:
            self._call_children_scripts()
        try:
            return function(*args, **kwargs)
        except BaseException:
            self.kill(signal.SIGTERM)
            raise


class IndependentRanks(DDPStrategy):
    """Ranks that stream talks side by side and never wait for each other.

    The process group serves its store only: ranks share counters (``zoo/streaming/ranks.py``), no
    tensors. Each rank loads the weights itself. Barriers and reductions, which Lightning runs
    around each evaluation, do nothing.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(process_group_backend="gloo", **given)

    def _configure_launcher(self) -> None:
        assert self.cluster_environment is not None
        self._launcher = _PatientLauncher(
            self.cluster_environment, self.num_processes, self.num_nodes
        )

    def setup(self, trainer: lightning.Trainer) -> None:
        """Move the system to the device of this rank; no weights are sent to other ranks."""
        assert self.accelerator is not None
        assert self.model is not None
        self.accelerator.setup(trainer)
        self.precision_plugin.convert_module(self.model)
        self.model_to_device()
        self.setup_precision_plugin()

    def barrier(self, *args: Any, **kwargs: Any) -> None:
        """Do not wait for other ranks."""

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """Return the object of this rank; all ranks compute the same."""
        return obj

    def reduce(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the value of this rank; rank 0 has the scores of all ranks."""
        return tensor

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        """Return the decision of this rank."""
        return decision


def evaluation_trainer(
    options: Mapping[str, Any], callbacks: Sequence[Callback]
) -> lightning.Trainer:
    """Create the Trainer of an evaluation.

    A launcher such as torchrun or srun determines the number of ranks if ``devices`` and
    ``num_nodes`` are 1.

    Args:
        options: The user's arguments of the Trainer. The user's callbacks are added to
            ``callbacks``.
        callbacks: Callbacks of the evaluation.

    Raises:
        ZooError: Lightning refuses an option.
    """
    devices, nodes = options.get("devices", 1), options.get("num_nodes", 1)
    if (devices, nodes) == (1, 1):
        devices, nodes = external_ranks()
    given = {**options, **device_options(options.get("accelerator", "auto"), devices)}
    single = given["devices"] in (1, "1") or isinstance(given["devices"], list)
    if given.get("strategy", "auto") == "auto":
        given["strategy"] = "auto" if single and nodes == 1 else IndependentRanks()
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    return create_trainer({**given, **FIXED, "num_nodes": nodes}, callbacks)


def device_options(device: str, devices: Any) -> dict[str, Any]:
    """Return ``accelerator`` and ``devices`` of a Trainer for a device such as ``cuda:1``.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or a device with an index.
        devices: Number of devices, if the device has no index.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = device.partition(":")
    return {"accelerator": kind, "devices": [int(index)] if index else devices}
