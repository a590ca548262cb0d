"""The job of train.py with ``estimate=true``: a table of the stages, without training."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from zoo.base.talks import Talk
from zoo.config import Config, build, plain
from zoo.training.estimate import Distribution, StageEstimate, distribution, estimate
from zoo.training.optimizer import OptimizerFactory
from zoo.training.settings import TrainingSettings
from zoo.training.tokenizer import needs_tokenizer, train_tokenizer

GIBIBYTE = 2**30
HOUR = 3600.0  # seconds
UTILISATION = 0.4  # share of the peak that trainings of this size reach on GPUs
# Peak of dense arithmetic in bfloat16, in floating-point operations per second (data sheets).
GPUS = {"RTX A6000": 155e12, "A100": 312e12, "L40S": 362e12, "H100": 989e12}
SLOWER = 0.5  # of arithmetic in TensorFloat-32


def print_estimate(
    cfg: Config,
    talks: Sequence[Talk],
    settings: TrainingSettings,
    optimizer: OptimizerFactory,
) -> None:
    """Estimate the training of a configuration and print it; no file is written.

    Args:
        cfg: Configuration of the training.
        talks: Training talks.
        settings: Settings of the training.
        optimizer: Creates the optimizer.

    Raises:
        ZooError: The talks or the backbone lack data or parts that a stage needs, or a
            configuration or tokenizer of a named model cannot be read.
    """
    options = plain(cfg)["trainer"]
    setup = distribution(options, precision=str(options["precision"]))
    with tempfile.TemporaryDirectory() as folder:
        if needs_tokenizer(cfg, settings):
            folder_of_tokenizer = Path(folder) / "tokenizer"
            train_tokenizer(folder_of_tokenizer, cfg, talks, settings)
            cfg.backbone.tokenizer = str(folder_of_tokenizer)
        stages = list(
            track(
                estimate(
                    build(cfg.system), talks, settings, setup, optimizer=optimizer, seed=cfg.seed
                ),
                description="estimating",
                total=len(settings.stages()),
                transient=True,
            )
        )
    show(stages, setup, Console())


def show(stages: Sequence[StageEstimate], setup: Distribution, console: Console) -> None:
    """Print the table of the stages, and the duration of the training on several GPUs.

    Args:
        stages: Estimates of the stages.
        setup: Devices and strategy.
        console: Destination.
    """
    console.print(
        f"{setup.devices} device{'s' * (setup.devices > 1)}, {setup.method}"
        f"{', offloaded' * setup.offload}, {setup.precision}, "
        f"{setup.batches_per_step} batch{'es' * (setup.batches_per_step > 1)} per step"
    )
    table = Table(title="Memory of one device in GiB, at the largest batch")
    for column in ("stage", "weights", "gradients", "optimizer", "rest", "total", "main memory"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage in stages:
        memory = stage.memory
        sizes = (memory.weights, memory.gradients, memory.optimizer, memory.other, memory.total)
        table.add_row(stage.stage, *(f"{size / GIBIBYTE:.2f}" for size in (*sizes, memory.main)))
    console.print(table)

    table = Table(title="Main memory of one machine, and a checkpoint on disk, in GiB")
    for column in ("stage", "loading", "steps", "saving", "checkpoint"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage in stages:
        host = stage.host
        main = (host.loading, host.steps, host.saving, host.checkpoint)
        table.add_row(stage.stage, *(f"{size / GIBIBYTE:.2f}" for size in main))
    console.print(table)

    table = Table(title="Work")
    for column in ("stage", "steps", "tokens/step", "audio s/step", "tokens", "audio h", "PFLOP"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage in stages:
        table.add_row(
            stage.stage,
            f"{stage.steps:,}",
            f"{stage.tokens:,.0f}",
            f"{stage.seconds:,.0f}",
            f"{stage.tokens * stage.steps:,.0f}",
            f"{stage.seconds * stage.steps / HOUR:,.1f}",
            f"{stage.operations * stage.steps / 1e15:,.1f}",
        )
    console.print(table)
    console.print(durations(stages, setup))


def durations(stages: Sequence[StageEstimate], setup: Distribution) -> str:
    """Return a sentence with the duration of all stages on several GPUs."""
    operations = sum(stage.operations * stage.steps for stage in stages)
    speed = UTILISATION * setup.devices * (1.0 if "bf16" in setup.precision else SLOWER)
    hours = {name: operations / (peak * speed) / HOUR for name, peak in GPUS.items()}
    listed = ", ".join(f"{_hours(count)} on {name}" for name, count in hours.items())
    gpus = f"{setup.devices} GPUs" if setup.devices > 1 else "one GPU"
    return f"At {UTILISATION:.0%} of the peak of {gpus}: {listed}."


def _hours(count: float) -> str:
    """Return a duration in minutes or hours."""
    if count < 1.0:
        return f"{60 * count:.0f} min" if count > 1 / 60 else "below 1 min"
    return f"{count:.1f} h"
