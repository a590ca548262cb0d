"""Keeps torch's random state in the checkpoint, so that dropout after a resume is the dropout of an unbroken run."""

from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback


class RandomState(Callback):
    """Saves and restores the CPU and CUDA generators of this process."""

    def on_save_checkpoint(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Put the generators' states beside the weights."""
        checkpoint["random_state"] = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}

    def on_load_checkpoint(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Take them up again."""
        state = checkpoint["random_state"]
        torch.set_rng_state(state["cpu"])
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
