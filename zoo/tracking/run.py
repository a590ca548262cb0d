"""A run: the folder it owns and the id under which loggers and checkpoints know it. Knows no logger."""

import hashlib
import json
import os
import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from zoo.errors import ZooError
from zoo.files import write_text
from zoo.tracking.launch import RUN_VARIABLE, is_main_process, launch_name

CARD = "run.json"
CHECKPOINT_KEY = "simulzoo_run"  # in a Lightning checkpoint: the id of the run that wrote it


@dataclass(frozen=True, slots=True)
class Run:
    """One training or evaluation. ``id`` and ``name`` stay the same when a training is resumed.

    folder: absolute. kind: "train" or "evaluate". group: shared by the jobs of a multirun or sweep, None for a single
    run. multirun: this is a job of one. resumed: the id comes from an earlier start.
    """

    folder: Path
    id: str
    kind: str
    name: str
    group: str | None = None
    multirun: bool = False
    resumed: bool = False

    @property
    def main(self) -> bool:
        """Whether this process writes files and logs."""
        return is_main_process()


def open_run(
    folder: Path,
    *,
    kind: str,
    name: str | None = None,
    resume: Path | None = None,
    multirun: bool = False,
) -> Run:
    """Take ``folder`` for a run and write its ``run.json``, before any long work.

    name: shown in W&B (None: kind and folder). resume: the run folder or Lightning checkpoint to go on from, whose id
    the run keeps. multirun: the folder is that of one job, its parent that of the launch. A process of rank > 0 takes
    the main process's folder and writes nothing.
    Raises ZooError for a folder that cannot be written, or that already holds a run which is not the one resumed.
    """
    if not is_main_process() and RUN_VARIABLE in os.environ:
        folder = Path(os.environ[RUN_VARIABLE])
        return Run(folder=folder, multirun=multirun, **_read_card(folder))
    folder = Path(folder).absolute()
    identity = run_id_of(resume) if resume is not None else _new_id(folder, multirun=multirun)
    ensure_writable(folder)
    run = Run(
        folder=folder,
        id=identity,
        kind=kind,
        name=name or f"{kind}/{folder.parent.name + '/' if multirun else ''}{folder.name}",
        group=_group(folder, multirun=multirun),
        multirun=multirun,
        resumed=resume is not None,
    )
    return _claim(run) if run.main else run


def _new_id(folder: Path, *, multirun: bool) -> str:
    """An id that all processes of a launch agree on without asking each other; a W&B agent brings its own."""
    if "WANDB_SWEEP_ID" in os.environ and "WANDB_RUN_ID" in os.environ and not multirun:
        return os.environ["WANDB_RUN_ID"]
    return hashlib.sha256(f"{launch_name()} {folder}".encode()).hexdigest()[:10]


def _group(folder: Path, *, multirun: bool) -> str | None:
    if multirun:
        return folder.parent.name
    return os.environ.get("WANDB_SWEEP_ID") or os.environ.get("WANDB_RUN_GROUP")


def _claim(run: Run) -> Run:
    """Write the card; whoever creates it first owns the folder. A resumed run keeps the card it finds, name and all."""
    if not run.resumed and not (run.folder / CARD).exists() and any(run.folder.iterdir()):
        raise ZooError(
            f"{run.folder} is not empty and holds no run of ours; choose another folder."
        )
    card = {"id": run.id, "kind": run.kind, "name": run.name, "group": run.group}
    try:
        with (run.folder / CARD).open("x") as file:
            json.dump(card, file, indent=1)
    except FileExistsError:
        found = _read_card(run.folder)
        if not run.resumed or found["id"] != run.id:
            raise ZooError(
                f"{run.folder} already holds the run {found['id']}; choose another folder or resume that run."
            ) from None
        return Run(folder=run.folder, multirun=run.multirun, resumed=True, **found)
    return run


def ensure_writable(folder: Path) -> None:
    """Create ``folder`` and a file in it, which goes again. Raises ZooError with the reason where that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ZooError(
            f"Cannot write to the run folder {folder}: {error.strerror}; choose another one."
        ) from error


def run_id_of(source: Path) -> str:
    """The id of the run behind a run folder, a folder with a ``run.json`` (an export), or a Lightning checkpoint.

    Raises ZooError where there is none.
    """
    source = Path(source)
    if source.is_dir() and (source / CARD).is_file():
        return str(_read_card(source)["id"])
    if source.is_file():
        identity = _id_in_checkpoint(source)
        if identity is not None:
            return identity
        for parent in source.absolute().parents[:2]:
            if (parent / CARD).is_file():
                return str(_read_card(parent)["id"])
    raise ZooError(
        f"{source} is no run folder and no checkpoint of a run: there is no {CARD} and no run id in it."
    )


def _id_in_checkpoint(checkpoint: Path) -> str | None:
    try:
        content = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError):
        return None  # not a checkpoint, or one that holds more than plain values
    identity = content.get(CHECKPOINT_KEY) if isinstance(content, Mapping) else None
    return str(identity) if identity is not None else None


def _read_card(folder: Path) -> dict[str, Any]:
    try:
        card = json.loads((folder / CARD).read_text())
        return {key: card[key] for key in ("id", "kind", "name", "group")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ZooError(f"{folder / CARD} is missing or damaged: {error}.") from error


def stamp(run: Run, folder: Path) -> None:
    """Leave the run's card in ``folder`` (an export), so that an evaluation of it knows where it comes from."""
    card = {
        key: value for key, value in asdict(run).items() if key in ("id", "kind", "name", "group")
    }
    write_text(folder / CARD, json.dumps(card, indent=1))


class RunIdentity(pl.Callback):
    """Keeps the run's id in every checkpoint, so that whoever resumes it continues the same run in the loggers."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the id under ``simulzoo_run``."""
        checkpoint[CHECKPOINT_KEY] = self.run.id
