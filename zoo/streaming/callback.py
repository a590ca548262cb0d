"""Hooks of Lightning callbacks that follow streams."""

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from zoo.base.types import Instance, Seconds


class StreamCallback(Callback):
    """A Lightning callback with two more hooks, which ``StreamingSystem`` calls while it streams.

    The hooks are called on every rank for the streams of that rank.
    """

    def on_chunk_end(self, trainer: Trainer, system: LightningModule, seconds: Seconds) -> None:
        """Called after each chunk.

        Args:
            trainer: The trainer.
            system: The streaming system.
            seconds: Duration of the chunk in seconds.
        """

    def on_talk_end(self, trainer: Trainer, system: LightningModule, instance: Instance) -> None:
        """Called after each talk.

        Args:
            trainer: The trainer.
            system: The streaming system.
            instance: The complete output of the stream.
        """
