"""Checkpoint files that are written while the training goes on."""

import pickle
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import CheckpointIO
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor

from zoo.base.disk.files import atomic_file
from zoo.base.errors import ZooError

# Errors that torch.load(weights_only=True) raises for damaged files.
READ_ERRORS = (
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    MemoryError,
)


class BackgroundWriter(CheckpointIO):
    """Writes checkpoint files in a thread of its own.

    ``save_checkpoint`` returns when all tensors are copied to main memory. One file is written at a
    time, and it replaces a file of the same name when it is complete and flushed to disk. Reading
    runs no code of the file. The interpreter ends after the last file is written.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._unfinished: Future[None] | None = None

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Copy a checkpoint and begin to write it; an error of the previous file is raised.

        Args:
            checkpoint: Tensors and plain values.
            path: File to write.
            storage_options: Names of entries whose tensors nobody else changes, which are not
                copied. None: there are none.
        """
        self.finish()
        owned = {name: checkpoint[name] for name in storage_options or () if name in checkpoint}
        others = {name: value for name, value in checkpoint.items() if name not in owned}
        copied = copy_checkpoint(others) | owned
        self._unfinished = self._thread.submit(_write, copied, Path(path))

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint into main memory.

        Args:
            path: File to read.
            map_location: Not used.
            weights_only: Not used; other values than tensors and plain ones are always refused.
        """
        self.finish()
        return read_file(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint file, or the folder of a sharded checkpoint."""
        self.finish()
        path = Path(path)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Wait until the last file is complete; an error of its thread is raised."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            unfinished.result()

    teardown = finish


def copy_checkpoint(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint whose tensors are copies in main memory; tied weights remain tied."""
    copies: dict[tuple[Any, ...], Tensor] = {}

    def copy(tensor: Tensor) -> Tensor:
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if key not in copies:
            copies[key] = tensor.detach().to("cpu", copy=True)
        return copies[key]

    copied: dict[str, Any] = apply_to_collection(checkpoint, Tensor, copy)
    return copied


def _write(checkpoint: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Python's file, unlike one that torch opens, gives the reason of the system for an error.
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        torch.save(checkpoint, file)


def read_file(path: Path, *, mmap: bool = False) -> dict[str, Any]:
    """Read a checkpoint file without running code of it.

    Args:
        path: File to read.
        mmap: Whether tensors are read only when they are used.

    Raises:
        ZooError: The file is damaged or contains other values than tensors and plain ones.
    """
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except READ_ERRORS as error:
        raise damaged_checkpoint(path) from error
    return content


def damaged_checkpoint(path: Path) -> ZooError:
    """Return the error for a checkpoint that cannot be read."""
    return ZooError(f"{path} is damaged; resume from another copy of it or start afresh.")
