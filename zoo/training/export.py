"""A trained backbone as files that anybody can load: weights, tokenizer, configuration, card."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from zoo.base.disk.files import write_text
from zoo.base.errors import ZooError, check_choice
from zoo.base.machine.hints import job_command
from zoo.config.records import FOLDER, of_system
from zoo.data.corpora import MiniTalks
from zoo.data.mixture import Direction
from zoo.report.card import CARD, TASK, Card
from zoo.systems.base import StreamingSystem

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# keys of the training's configuration that ``config.yaml`` of an export contains
CONFIG_KEYS = ("backbone", "training", "source_language", "target_language", "seed")
BUILT_IN = """on the built-in corpus minitalks: synthetic speech over a closed grammar. It shows
that a system works; it does not translate real talks."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Which weights of a training are exported.

    Attributes:
        step: Optimizer step after which the weights were saved.
        bleu: Development BLEU, 0 to 100, of the weights that have the best one. None: the weights
            of the last step.
    """

    step: int
    bleu: float | None = None

    def __str__(self) -> str:
        """Name the weights in one phrase."""
        if self.bleu is None:
            return f"step {self.step}, the last"
        return f"step {self.step}, the best on the development talks: {self.bleu:.2f} BLEU"


def export(
    system: StreamingSystem,
    folder: Path,
    *,
    selected: Selected,
    config: Mapping[str, Any],
    corpus: str,
    training_overrides: Sequence[str],
    evaluation_overrides: Sequence[str],
    dtype: str,
    directions: Collection[Direction] = (),
) -> Path:
    """Write weights, tokenizer, ``config.yaml`` and ``README.md``.

    Args:
        system: The system whose backbone is exported.
        folder: Folder to write to.
        selected: Which weights the system has.
        config: Configuration of the training.
        corpus: Name of the corpus.
        training_overrides: Overrides of the training.
        evaluation_overrides: Overrides that an evaluation of the export needs.
        dtype: Data type of the weights, a key of ``DTYPES``.
        directions: Directions of a training on a mixture. Empty: the direction of the system.

    Returns:
        The folder.

    Raises:
        ZooError: The dtype is unknown, or the folder already holds a model.
    """
    check_choice("dtype", dtype, DTYPES)
    if (folder / "model.safetensors").exists():
        raise ZooError(f"{folder} already holds an exported model; move it away first.")
    system.backbone.save(folder, DTYPES[dtype])

    values: dict[str, Any] = {name: config[name] for name in CONFIG_KEYS}
    values["backbone"] = system.backbone.exported_arguments(values["backbone"])
    values["evaluate"] = evaluation_record(system, evaluation_overrides)
    values["weights"] = asdict(selected)
    configuration = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    write_text(folder / "config.yaml", configuration)

    written = card(
        system,
        selected=selected,
        corpus=corpus,
        training_overrides=training_overrides,
        evaluation_overrides=evaluation_overrides,
        dtype=dtype,
        directions=directions,
    )
    write_text(folder / CARD, written.text(folder))
    return folder


def evaluation_record(system: StreamingSystem, overrides: Sequence[str]) -> dict[str, Any]:
    """Return what ``zoo.load`` composes, and the parts of the system that it gives.

    Args:
        system: The system whose backbone is exported.
        overrides: Overrides that an evaluation repeats.
    """
    knob = system.knob
    return {
        "overrides": of_system(system.backbone.evaluation_overrides(overrides, FOLDER)),
        "system": system.name,
        "policy": type(system.policy).__name__,
        "history": type(system.history).__name__,
        "knob": knob and {"name": knob.name, "values": list(knob.values)},
    }


def card(
    system: StreamingSystem,
    *,
    selected: Selected,
    corpus: str,
    training_overrides: Sequence[str],
    evaluation_overrides: Sequence[str],
    dtype: str,
    directions: Collection[Direction] = (),
) -> Card:
    """Return the model card: size, languages and step of the model, and its two commands.

    The licence is left out: it depends on the corpus and on pretrained weights.

    Args:
        system: The system whose backbone is exported.
        selected: Which weights the system has.
        corpus: Name of the corpus.
        training_overrides: Overrides of the training.
        evaluation_overrides: Overrides that an evaluation repeats.
        dtype: Data type of the weights, a key of ``DTYPES``.
        directions: Directions of a training on a mixture. Empty: the direction of the system.
    """
    directions = directions or [(system.source_language, system.target_language)]
    languages = ", ".join(f"{source.name} to {target.name}" for source, target in directions)
    size = sum(parameter.numel() for parameter in system.backbone.parameters()) / 1e6
    data = BUILT_IN if corpus == MiniTalks.name else f"on {corpus}."
    overrides = system.backbone.evaluation_overrides(evaluation_overrides, FOLDER)
    # FOLDER stands for a path that the reader writes.
    words = [item if item.endswith(FOLDER) else shlex.quote(item) for item in overrides]
    evaluation = " ".join([job_command("evaluate"), *words])
    about = f"""{size:.2f} M parameters, {dtype}. Trained by

    {job_command("train")} {shlex.join(training_overrides)}

{data} Evaluate it with `{evaluation}`.
Weights of {selected}."""
    metadata = {
        "language": list(dict.fromkeys(one.code for pair in directions for one in pair)),
        "library_name": "simulzoo",
        TASK: system.backbone.hub_task,
        "tags": list(system.backbone.hub_tags),
        "datasets": [corpus],
    }
    return Card(title=f"{system.name}, {languages}", about=about, metadata=metadata)
