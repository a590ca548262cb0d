"""Callback that saves PyTorch's random states, so that a resumed run draws the same numbers."""

from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch import distributed


class RandomState(Callback):
    """Saves the states of PyTorch's CPU and CUDA generators in checkpoints, and restores them.

    The generators control dropout, among other things. Every process has its own states.
    """

    def on_save_checkpoint(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        checkpoint: dict[str, Any],
    ) -> None:
        """Add the generator states of all ranks to the checkpoint, which one process writes."""
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
        """Restore the generator states of this rank.

        A rank without states in the checkpoint keeps its current states.
        """
        states = checkpoint["random_states"]
        if trainer.global_rank >= len(states):
            return
        state = states[trainer.global_rank]
        torch.set_rng_state(state["cpu"])
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
