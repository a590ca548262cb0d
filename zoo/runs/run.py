"""A run: the folder it owns, and the id that loggers and checkpoints use for it."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.base.disk.files import create_text, write_text
from zoo.base.disk.parsing import MALFORMED, read_json
from zoo.base.disk.run_folder import RUN_CARD
from zoo.base.errors import ZooError
from zoo.base.machine.launch import RUN_VARIABLE, is_main_process, launch_name

CARD_FIELDS = ("id", "kind", "name", "group")
_HELD = "{} already holds the run {}; choose another folder or resume that run."
CHECKPOINT_KEY = "simulzoo_run"  # entry of Lightning checkpoints: id of the run that wrote them


@dataclass(frozen=True, slots=True)
class Run:
    """One training or evaluation.

    Attributes:
        folder: absolute path of the run folder.
        id: unique id; a resumed training keeps it.
        kind: ``train`` or ``evaluate``.
        name: name shown in W&B; a resumed training keeps it.
        group: name shared by the jobs of a multirun or a sweep; None for a single run.
        multirun: whether the run is one job of a multirun.
        resumed: whether the id comes from an earlier start.
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

    @property
    def card(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        return {field: getattr(self, field) for field in CARD_FIELDS}


def open_run(
    folder: Path,
    *,
    kind: str,
    name: str | None = None,
    resume: Path | None = None,
    multirun: bool = False,
) -> Run:
    """Claim a run folder and write its ``run.json``, before any long work starts.

    A process of rank > 0 returns the main process's run and writes nothing.

    Args:
        folder: the run folder; created if it does not exist.
        kind: ``train`` or ``evaluate``.
        name: name shown in W&B; None: kind and folder name.
        resume: run folder or Lightning checkpoint to resume; the run keeps its id.
        multirun: whether ``folder`` belongs to one job and its parent folder to the launch.

    Raises:
        ZooError: the folder is not writable, or it already holds another run or other files.
    """
    if not is_main_process() and RUN_VARIABLE in os.environ:
        folder = Path(os.environ[RUN_VARIABLE])
        return Run(folder=folder, multirun=multirun, **_read_card(folder))

    folder = Path(folder).absolute()
    run_id = run_id_of(resume) if resume is not None else _new_id(folder, multirun=multirun)
    ensure_writable(folder)
    run = Run(
        folder=folder,
        id=run_id,
        kind=kind,
        name=name or f"{kind}/{folder.parent.name + '/' if multirun else ''}{folder.name}",
        group=_group(folder, multirun=multirun),
        multirun=multirun,
        resumed=resume is not None,
    )
    return _claim(run) if run.main else run


def check_unused(folder: Path, *, kind: str) -> None:
    """Check that a new run may have a folder, before talks are read.

    ``open_run`` checks it again when it claims the folder.

    Args:
        folder: the run folder.
        kind: ``train`` or ``evaluate``.

    Raises:
        ZooError: the folder holds another run or other files.
    """
    if not is_main_process() or not folder.is_dir() or not os.access(folder, os.R_OK):
        return
    names = {path.name for path in folder.iterdir()}
    if RUN_CARD in names:
        raise ZooError(_HELD.format(folder, _read_card(folder)["id"]))
    # The job log exists already if a message preceded the run, as the synthesis of the corpus logs.
    if names - {f"{kind}.log"}:
        raise ZooError(f"{folder} is not empty and is not a run folder; choose another folder.")


def _new_id(folder: Path, *, multirun: bool) -> str:
    """Return an id that all processes of a launch compute without communication.

    A W&B sweep agent sets the id in the environment.
    """
    if "WANDB_SWEEP_ID" in os.environ and "WANDB_RUN_ID" in os.environ and not multirun:
        return os.environ["WANDB_RUN_ID"]
    return hashlib.sha256(f"{launch_name()} {folder}".encode()).hexdigest()[:10]


def _group(folder: Path, *, multirun: bool) -> str | None:
    if multirun:
        return folder.parent.name
    return os.environ.get("WANDB_SWEEP_ID") or os.environ.get("WANDB_RUN_GROUP")


def _claim(run: Run) -> Run:
    """Create ``run.json``; the process that creates it owns the folder.

    A resumed run keeps the existing card, including its name.
    """
    if not run.resumed:
        check_unused(run.folder, kind=run.kind)
    try:
        create_text(run.folder / RUN_CARD, json.dumps(run.card, indent=1))
    except FileExistsError:
        existing = _read_card(run.folder)
        if not run.resumed or existing["id"] != run.id:  # claimed by another process since
            raise ZooError(_HELD.format(run.folder, existing["id"])) from None
        return Run(folder=run.folder, multirun=run.multirun, resumed=True, **existing)
    return run


def ensure_writable(folder: Path) -> None:
    """Create a folder and test it with a temporary file.

    Raises:
        ZooError: the folder is not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ZooError(
            f"Cannot write to the run folder {folder}: {error.strerror}; choose another folder."
        ) from error


def run_id_of(source: Path) -> str:
    """Return the id of the run that wrote a folder or a checkpoint.

    Args:
        source: a run folder, an exported folder with a ``run.json``, or a Lightning checkpoint.

    Raises:
        ZooError: ``source`` has no run id.
    """
    source = Path(source)
    if source.is_dir() and (source / RUN_CARD).is_file():
        return str(_read_card(source)["id"])
    if source.is_file():
        run_id = _id_in_checkpoint(source)
        if run_id is not None:
            return run_id
        for parent in source.absolute().parents[:2]:
            if (parent / RUN_CARD).is_file():
                return str(_read_card(parent)["id"])
    raise ZooError(
        f"{source} is neither a run folder nor a checkpoint of a run: it has no {RUN_CARD} and no "
        "run id."
    )


def _id_in_checkpoint(checkpoint: Path) -> str | None:
    # only a training that resumes from a checkpoint file comes here
    import torch

    try:
        content = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    except Exception:  # of the unpickler, for a file of any content
        return None  # not a checkpoint, or a checkpoint with values other than plain data
    run_id = content.get(CHECKPOINT_KEY) if isinstance(content, Mapping) else None
    return str(run_id) if run_id is not None else None


def _read_card(folder: Path) -> dict[str, Any]:
    try:
        card = read_json(folder / RUN_CARD)
        return {field: card[field] for field in CARD_FIELDS}
    except (OSError, *MALFORMED) as error:
        raise ZooError(f"{folder / RUN_CARD} is missing or damaged: {error}.") from error


def write_card(run: Run, folder: Path) -> None:
    """Write the run's card into an exported folder, so that its evaluations name the training."""
    write_text(folder / RUN_CARD, json.dumps(run.card, indent=1))
