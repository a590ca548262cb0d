"""Lightning's Trainer for streaming evaluations, on one device or on several ranks."""

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

from zoo.systems.lightning.trainer import check_options, create_trainer, is_single, on_devices

# Arguments that an evaluation sets to False, and what the user can do instead or the reason.
SET_BY = {
    "logger": "use logger=NAME instead",
    "enable_checkpointing": "nothing is trained",
    "enable_progress_bar": "one bar counts the audio of all ranks",
    "enable_model_summary": "use trainer.callbacks instead",
    "use_distributed_sampler": "the ranks claim talks from a queue",
}
FIXED = dict.fromkeys(SET_BY, False)


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
    tensors. Each rank loads the weights itself.

    Barriers and reductions, which Lightning runs around each evaluation, do nothing: in a barrier
    rank 0 would wait for a rank that has died, and the job with it. Here rank 0 streams the talks
    of that rank and ends as usual (``test_rank_0_goes_on_when_another_rank_dies``). A rank that has
    no talk left also goes on to the next row while another rank is still streaming.
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


def check_trainer(options: Mapping[str, Any]) -> None:
    """Raise ZooError for an argument that an evaluation sets itself or that Lightning refuses.

    Args:
        options: The user's arguments of the Trainer, of which no other Trainer is made.
    """
    evaluation_trainer(options, [])


def evaluation_trainer(
    options: Mapping[str, Any], callbacks: Sequence[Callback]
) -> lightning.Trainer:
    """Create the Trainer of an evaluation.

    Args:
        options: The user's arguments of the Trainer. The user's callbacks are added to
            ``callbacks``.
        callbacks: Callbacks of the evaluation.

    Raises:
        ZooError: Lightning refuses an option, or the evaluation sets an option itself.
    """
    check_options(options, SET_BY, job="evaluation")
    given = on_devices(options)
    if given.get("strategy", "auto") == "auto" and not is_single(given):
        given["strategy"] = IndependentRanks()
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    return create_trainer({**given, **FIXED}, callbacks)
