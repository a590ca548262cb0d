"""Saves torch's random state, so that a resumed run has the dropout of an uninterrupted one."""

from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch import distributed


class RandomState(Callback):
    """Saves and restores the CPU and CUDA generators of every process."""

    def on_save_checkpoint(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        checkpoint: dict[str, Any],
    ) -> None:
        """Add the generators' states of all ranks; one process writes the checkpoint."""
        state = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}
        states = [state] * trainer.world_size
        if trainer.world_size > 1:
            distributed.all_gather_object(states, state)
        checkpoint["random_states"] = states

    def on_load_checkpoint(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        checkpoint: dict[str, Any],
    ) -> None:
        """Restore the states; ranks that did not exist before keep their own."""
        states = checkpoint["random_states"]
        if trainer.global_rank >= len(states):
            return
        state = states[trainer.global_rank]
        torch.set_rng_state(state["cpu"])
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
