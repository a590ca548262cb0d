"""Target speech of a stream that may not end: what follows the first minutes is in files."""

import mmap
import tempfile
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zoo.base.types import SAMPLE_RATE, Samples

BLOCK: Samples = 10 * 60 * SAMPLE_RATE  # size of the speech that is held in memory, and of a file


@dataclass(slots=True, eq=False)
class SpeechSpool:
    """Keeps the speech of a stream; an hour of it would take 230 MB of memory.

    The first ten minutes are in memory, so that streams of usual length write no file. Each further
    ten minutes are in a temporary file without a name, which ends with the process. If a file
    cannot be written, its speech is in memory, too.

    Attributes:
        files: Number of files.
    """

    files: int = 0
    _in_memory: Samples = 0
    _block: Tensor = field(default_factory=lambda: torch.empty(0))  # rest of the newest file
    _mapped: mmap.mmap | None = None

    def add(self, samples: Tensor) -> Tensor:
        """Keep samples (n,) and return them, possibly as a view of a file."""
        count = samples.numel()
        if self._in_memory + count <= BLOCK:
            self._in_memory += count
            return samples
        if len(self._block) < count and not self._open(max(BLOCK, count)):
            self._in_memory = count  # try the next file after ten more minutes of speech
            return samples
        stored, self._block = self._block[:count], self._block[count:]
        stored.copy_(samples)
        return stored

    def _open(self, size: Samples) -> bool:
        """Map a new file for ``size`` samples. Returns False if it cannot be written."""
        self._leave()
        try:
            with tempfile.TemporaryFile() as file:
                # Write every byte now: on a full disk, writing through the map would kill the
                # process.
                file.write(bytes(4 * size))
                file.flush()
                self._mapped = mmap.mmap(file.fileno(), 4 * size)
        except OSError:
            self._block = torch.empty(0)
            return False
        self._block = torch.frombuffer(self._mapped, dtype=torch.float32)
        self.files += 1
        return True

    def _leave(self) -> None:
        """Give back the memory of the last file; what was written to it stays in the file."""
        if self._mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)
        self._mapped = None
