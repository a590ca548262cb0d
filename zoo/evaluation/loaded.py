"""Loads the systems of a comparison one after the other; each reads its weights once."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.config import Config, plain
from zoo.evaluation.recorded import InstanceSource

if TYPE_CHECKING:
    from zoo.systems.system import System

Choices = dict["System | InstanceSource", Config]  # configuration of each system


class LoadedSystems:
    """Holds the weights of one system at a time.

    Systems in a row whose backbones have the same configuration share one network.

    Args:
        seed: Seed that is set whenever a system is loaded or used again, so that randomly
            initialised weights are equal on all ranks.
    """

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self._config: dict[str, Any] = {}
        self._system: System | None = None

    def load(self, system: "System", cfg: Config) -> "System":
        """Load the weights of a system and drop the system before it.

        Args:
            system: The system, which is not loaded yet.
            cfg: Its configuration.

        Returns:
            The system, or the system before it if both have the same configuration.

        Raises:
            ZooError: A weight or file is missing or damaged.
        """
        # a job that only scores recorded logs loads no system
        import torch

        from zoo.systems.base import StreamingSystem

        config = plain(cfg)
        torch.manual_seed(self.seed)
        if self._system is not None and config["system"] == self._config["system"]:
            return self._system

        before, self._system = self._system, None
        if (
            isinstance(before, StreamingSystem)
            and isinstance(system, StreamingSystem)
            and self._shares(before, config)
        ):
            system.share_backbone(before)
        del before  # its weights are freed before the next are read
        system.configure_model()
        self._config, self._system = config, system
        return system

    def _shares(self, before: "System", config: dict[str, Any]) -> bool:
        """Return whether the loaded network serves a configuration, unchanged by a latency knob."""
        changed = before.knob is not None and before.knob.attribute.startswith("backbone.")
        return not changed and bool(config["backbone"] == self._config["backbone"])


def take_systems(
    choices: Choices,
) -> Iterator[tuple["System | InstanceSource", Config, bool]]:
    """Remove and yield system after system, so that each is freed when the next is loaded.

    Args:
        choices: Configuration of each system and recorded log; empty in the end.

    Returns:
        Each system, its configuration, and whether it is the first with its network: an offline row
        does not depend on the policy, so one row per network is enough.
    """
    networks: list[object] = []
    while choices:
        system = next(iter(choices))
        choice = choices.pop(system)
        network = network_of(plain(choice))
        yield system, choice, network not in networks
        networks.append(network)


def network_of(config: Mapping[str, Any]) -> object:
    """Return the settings on which the offline row of a system depends.

    These are the backbone without its alignment, the synthesizer and the languages. Systems with
    equal settings share one offline row. A system without a backbone, such as an agent of another
    tool, shares its row with none.
    """
    if config.get("backbone") is None:
        return config["system"]
    backbone = {key: value for key, value in config["backbone"].items() if key != "alignment"}
    return backbone, config["synthesizer"], config["source_language"], config["target_language"]


def check_streams(system: "System", values: Sequence[float | None]) -> None:
    """Check without the values of its weights that a system can be loaded and opens streams.

    The system itself stays as it is. What another tool loads cannot be checked in this way, but
    it may have a check of its own (``System.probe``).

    Args:
        system: A system that is not loaded.
        values: Values of its latency knob; None: the system has no knob.

    Raises:
        ZooError: A file is missing or does not fit, or no stream can start at a value.
    """
    from zoo.backbones.base import shapes_of_weights
    from zoo.systems.base import StreamingSystem

    if not isinstance(system, StreamingSystem):
        system.probe()
        return
    trial = copy.deepcopy(system)
    try:
        with shapes_of_weights():
            trial.configure_model()
            open_at(trial, values)
    except (NotImplementedError, RuntimeError):
        return  # a part that computes with its weights when it is loaded


def open_at(system: "System", values: Sequence[float | None]) -> None:
    """Open a stream at each value of the latency knob. Raises ZooError if none can start."""
    for value in values:
        if value is not None:
            system.turn_knob(value)
        system.open("")
