"""Creation of Lightning's Trainer, for trainings and evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any

import lightning
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback

from zoo.errors import ZooError


def create_trainer(options: Mapping[str, Any], callbacks: Sequence[Callback]) -> lightning.Trainer:
    """Create a Trainer.

    Args:
        options: Arguments of the Trainer. Its callbacks follow ``callbacks``.
        callbacks: Callbacks of the job.

    Raises:
        ZooError: Lightning refuses an option.
    """
    every = [*callbacks, *(options.get("callbacks") or ())]
    try:
        return lightning.Trainer(**{**options, "callbacks": every})
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise ZooError(f"Lightning refuses the trainer: {' '.join(str(error).split())}") from error
