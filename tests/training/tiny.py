"""A training of a few weights: a part that a checkpoint restores, a random frozen part, a head.

    python -m tests.training.tiny FOLDER

trains 9 steps in ``FOLDER/whole`` and 3 steps each with two, one and two processes in
``FOLDER/parts``.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import lightning
import numpy as np
import torch
from torch import Tensor, nn

from tests.fixtures.streams import new_system
from zoo.backbones.base import Backbone
from zoo.backbones.objective import Objective
from zoo.backbones.pretrained.weights import load_weights, save_weights
from zoo.base.types import Capability
from zoo.data.sampling import Pass, Sampler, Sampling
from zoo.policies.wait_k import WaitK
from zoo.systems.base import StreamingSystem
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.optimizer import ADAMW, OptimizerFactory
from zoo.training.run import fit
from zoo.training.settings import TrainingSettings

WIDTH = 256  # of the restored part, which has nearly all weights


class Tiny(Backbone):
    """A restored encoder, a random bridge that no stage trains, and a head with dropout.

    Args:
        name: Checkpoint of the encoder.
        dropout: Dropout before the head.
        drawn: Random numbers drawn before the bridge, so that it begins with other weights.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset(Capability)
    frame_samples = 320
    decode = text = None  # type: ignore[assignment]

    def __init__(self, name: Path, *, dropout: float = 0.0, drawn: int = 0) -> None:
        super().__init__()
        self.name = name
        self.dropout = dropout
        self.drawn = drawn

    def load(self) -> None:
        self.encoder = nn.Linear(WIDTH, WIDTH)
        load_weights(self.encoder, self.name)
        torch.rand(self.drawn)
        self.bridge = nn.Linear(WIDTH, 4)
        self.norm = nn.BatchNorm1d(4, affine=False)
        self.head = nn.Sequential(nn.Dropout(self.dropout), nn.Linear(4, 1))

    def forward(self, rows: Tensor) -> Tensor:
        result: Tensor = self.head(self.bridge(self.encoder(rows)))
        return result

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        save_weights(self, folder, dtype)


class Row(NamedTuple):
    """One example: a row of numbers."""

    numbers: np.ndarray
    seconds: float = 1.0


class Rows(Sampling, Sampler):
    """A pass of 20 random rows; the options and the sampler are one."""

    kinds = (1.0,)  # type: ignore[assignment]

    def sampler(self, *given: object, **options: object) -> Sampler:  # type: ignore[override]
        return self

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        return Pass(np.arange(20), seconds=np.ones(20), groups=np.zeros(20, dtype=int))

    def examples(
        self, kind: int, positions: np.ndarray, random: np.random.Generator
    ) -> Sequence[Row]:
        return [Row(np.random.default_rng(place).normal(size=WIDTH)) for place in positions]


class Squares(Objective):
    """The squared distance of the outputs from the sum of a row, with a weight of its own."""

    def __init__(self) -> None:
        super().__init__(Rows())
        self.scale = nn.Parameter(torch.ones(1))

    def batch(self, examples: Sequence[Any]) -> Any:
        return torch.tensor(np.stack([row.numbers for row in examples])).float()

    def tokens(self, batch: Any) -> int:
        return len(batch)

    def losses(self, backbone: Backbone, batch: Any) -> dict[str, Tensor]:
        found = backbone(batch).squeeze(1) * self.scale
        return {"loss": (found - batch.sum(1)).square().mean()}


class Record(lightning.Callback):
    """Writes the mean loss and the first number of every example of each step as a line of JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._losses: list[Tensor] = []
        self._batches: list[Tensor] = []

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._losses.append(outputs["loss"] * trainer.accumulate_grad_batches)
        self._batches.append(batch.content[:, 0])
        if len(self._losses) < trainer.accumulate_grad_batches:
            return
        loss = pl_module.all_gather(torch.stack(self._losses)).mean().item()
        examples = pl_module.all_gather(torch.cat(self._batches)).flatten().tolist()
        self._losses, self._batches = [], []
        if trainer.is_global_zero:
            with self.path.open("a") as file:
                line = {"step": trainer.global_step, "loss": loss, "examples": examples}
                file.write(json.dumps(line) + "\n")


def pretrained(folder: Path, seed: int = 1) -> Path:
    """Write the checkpoint of the encoder."""
    torch.manual_seed(seed)
    save_weights(nn.Linear(WIDTH, WIDTH), folder)
    return folder


def train(
    folder: Path,
    *,
    steps: int,
    resume: bool = False,
    dropout: float = 0.0,
    drawn: int = 0,
    optimizer: OptimizerFactory = ADAMW,
    **options: Any,
) -> StreamingSystem:
    """Train from ``folder/pretrained``, or go on with a training, and return the system."""
    system = new_system(
        Tiny(folder / "pretrained", dropout=dropout, drawn=drawn), WaitK(k=1), chunk_seconds=1.0
    )
    stage = Stage(
        objective="squares",
        trains=["head"],
        steps=steps,
        learning_rate=0.01,
        schedule="constant",
        batch_seconds=4.0,
        examples=4,
    )
    fit(
        system=system,
        talks=[],
        dev=[],
        settings=TrainingSettings(
            curriculum=Curriculum({"only": stage}),
            objectives={"squares": Squares()},
            save_every_steps=3,
            evaluate_last=False,
            data_workers=0,
        ),
        trainer_options={
            "accelerator": "cpu",
            "precision": "32-true",
            "enable_progress_bar": False,
            **options,
        },
        folder=folder,
        seed=0,
        device=torch.device("cpu"),
        optimizer=optimizer,
        callbacks=[Record(folder / "steps.jsonl")],
        resume=last(folder) if resume else None,
    )
    return system


def last(folder: Path) -> Path:
    """Return the checkpoint from which a training is resumed."""
    return folder / "checkpoints" / "last.ckpt"


if __name__ == "__main__":
    torch.set_num_threads(1)  # the processes are forked
    two = {"devices": 2, "strategy": "ddp_fork"}
    one = {"devices": 1, "accumulate_grad_batches": 2}
    whole, parts = (Path(sys.argv[1]) / name for name in ("whole", "parts"))
    for run in (whole, parts):
        pretrained(run / "pretrained")
    train(whole, steps=9, **one)
    for steps, options in ((3, two), (6, one), (9, two)):
        train(parts, steps=steps, resume=steps > 3, **options)
