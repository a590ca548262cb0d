"""The folders that a launch creates; those without a result are removed when it ends.

Hydra creates the folder of a job before the job is checked.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from zoo.base.disk.files import remove_if_empty, remove_new, write_bytes

MULTIRUN = "multirun.yaml"  # Hydra's record of a multirun, which it writes before the first job


class NewFolders(Callback):
    """Notes what exists before Hydra creates folders; Hydra calls it (``conf/hydra``)."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Note the folders on the way to the run folder, unless its name is refused later."""
        with suppress(OmegaConfBaseException):
            _CREATED.note(Path(config.hydra.run.dir))

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Note the folders on the way to the folder of the multirun, and its content."""
        with suppress(OmegaConfBaseException):
            _CREATED.note(Path(config.hydra.sweep.dir), sweep=True)


class _Created:
    """What a launch has created.

    Attributes:
        before: absolute paths of the folders that existed; None if that is not known.
        sweep: folder of a multirun; None for a single job.
        record: content of the record in ``sweep`` before the launch; None without a record.
    """

    def __init__(self) -> None:
        self.before: set[Path] | None = None
        self.sweep: Path | None = None
        self.record: bytes | None = None

    def note(self, folder: Path, *, sweep: bool = False) -> None:
        """Note what exists."""
        folder = folder.absolute()
        inner = folder.iterdir() if sweep and folder.is_dir() else ()
        self.before = {path for path in (folder, *folder.parents, *inner) if path.is_dir()}
        self.sweep, self.record = folder if sweep else None, None
        if sweep and (folder / MULTIRUN).is_file():
            self.record = (folder / MULTIRUN).read_bytes()


_CREATED = _Created()


def remove_unused(folder: Path | None = None) -> None:
    """Remove the folders that this launch has created and that have no content.

    A folder that existed before stays, also if it is empty.

    Args:
        folder: run folder of a job; None: the folder of a multirun, with the record of Hydra.
    """
    before, sweep = _CREATED.before, _CREATED.sweep
    if before is None:  # in a process that a launcher of Hydra has started for a job
        if folder is not None:
            remove_if_empty(folder)
    elif folder is not None:
        remove_new(folder.absolute(), before)
    elif sweep is not None and sweep.is_dir():
        if {path for path in sweep.iterdir() if path.is_dir()} - before:
            return  # of a job
        if _CREATED.record is not None:
            write_bytes(sweep / MULTIRUN, _CREATED.record)
        else:
            (sweep / MULTIRUN).unlink(missing_ok=True)
        remove_new(sweep, before)
