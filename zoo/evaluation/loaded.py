"""Loads the systems of a comparison one after the other."""

from typing import TYPE_CHECKING, Any

from zoo.config import Config, build, plain

if TYPE_CHECKING:
    from zoo.systems.system import System


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

    def load(self, cfg: Config) -> "System":
        """Create the system of a configuration, load its weights and drop the system before it.

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

        system: System = build(cfg.system)
        before, self._system = self._system, None
        if (
            isinstance(before, StreamingSystem)
            and isinstance(system, StreamingSystem)
            and self._shares(before, config)
        ):
            system.share_backbone(before)
        del before  # its weights are freed before the next are read
        torch.manual_seed(self.seed)
        system.configure_model()
        self._config, self._system = config, system
        return system

    def _shares(self, before: "System", config: dict[str, Any]) -> bool:
        """Return whether the loaded network serves a configuration, unchanged by a latency knob."""
        changed = before.knob is not None and before.knob.attribute.startswith("backbone.")
        return not changed and bool(config["backbone"] == self._config["backbone"])
