"""Keeps torch's random state in the checkpoint, so that dropout after a resume is the dropout of an unbroken run."""

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
        """Put the generators' states beside the weights, by rank: one process writes for all."""
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
        """Take them up again; a run that goes on with more processes than before has none for the others."""
        states = checkpoint["random_states"]
        if trainer.global_rank >= len(states):
            return
        state = states[trainer.global_rank]
        torch.set_rng_state(state["cpu"])
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
