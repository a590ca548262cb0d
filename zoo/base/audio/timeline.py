"""Places the sound of a film by its time stamps."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from zoo.base.errors import ZooError
from zoo.base.types import Samples, Seconds

logger = logging.getLogger(__name__)

Block = npt.NDArray[np.float32]  # (n, channels)
PIECE: Samples = 1 << 16  # of a block
# Time stamps are rounded (to 1 ms in Matroska and FLV), and those of a browser's recorder vary. A
# frame that is lost lasts longer: 20 ms of Opus, 21 ms of AAC at 48 kHz.
ROUNDING: Seconds = 0.01
OVERLAP: Seconds = 0.1  # shorter ones are kept, so that times that vary cut no sample
RESTART: Seconds = 1.0  # times that go back further are those of another recording after this one
NAMED: Seconds = 0.1  # silence from which on it is named
LONGEST: Seconds = 24 * 3600.0  # a file of a megabyte can have months of silence
MOST_MISSING: Seconds = 3600.0  # longer gaps are errors of a clock


def join(blocks: Iterable[tuple[int, Block]]) -> Iterator[tuple[int, Block]]:
    """Yield longer blocks, because a frame of 20 ms costs as much work in Python as a second.

    Args:
        blocks: sample rate and (n, channels) samples.
    """
    parts: list[Block] = []
    last, count = (0, 0), 0
    for rate, block in blocks:
        kind = (rate, block.shape[1])
        if parts and (kind != last or count >= PIECE):
            yield last[0], np.concatenate(parts)
            parts, count = [], 0
        parts.append(block)
        last, count = kind, count + len(block)
    if parts:
        yield last[0], np.concatenate(parts)


class Timeline:
    """The sound of a film from its start, without gaps.

    Args:
        path: the film, for messages.
        zero: time stamp of the start.
    """

    def __init__(self, path: Path, zero: Seconds) -> None:
        self._path = path
        self._zero = zero
        self._end: Seconds = 0.0  # of the sound so far
        self._missing: Seconds = 0.0  # total of the silence

    def place(self, stamp: Seconds | None, rate: int, block: Block) -> Iterator[Block]:
        """Yield the silence before a block, and the samples of the block after what is there.

        Args:
            stamp: time stamp of the first sample; None: that after the block before.
            rate: samples per second.
            block: (n, channels) samples.

        Raises:
            ZooError: the time stamps have gaps of hours, or the sound lasts longer than a day.
        """
        missing = 0.0 if stamp is None else stamp - self._zero - self._end
        if missing > ROUNDING:
            yield from self._silence(missing, rate, block.shape[1])
        elif missing < -RESTART and self._end:
            self._restart(missing)
        elif missing < -(OVERLAP if self._end else ROUNDING):
            block = block[round(-missing * rate) :]
        self._end += len(block) / rate
        if self._end > LONGEST:
            raise ZooError(f"Audio file {self._path} has more than {LONGEST / 3600:.0f} hours.")
        yield block

    def finish(self) -> None:
        """Log a warning if silence stands for sound that is missing.

        Raises:
            ZooError: there is no sample.
        """
        if not self._end:
            raise ZooError(f"Audio file {self._path} has no samples; a talk needs at least one.")
        if self._missing > NAMED:
            logger.warning(
                "%s has no sound for %.2f s by its time stamps, at its start or in gaps; silence "
                "stands for it.",
                self._path,
                self._missing,
            )

    def _silence(self, missing: Seconds, rate: int, channels: int) -> Iterator[Block]:
        """Yield silence up to the next block."""
        self._missing += missing
        if self._missing > MOST_MISSING:
            raise ZooError(
                f"Audio file {self._path} has no sound for {self._missing / 3600:.1f} hours by its "
                f"time stamps, the last gap at {self._end:.1f} s; write its sound as a WAV file."
            )
        left = round(missing * rate)
        self._end += left / rate
        while left > 0:
            yield np.zeros((min(left, PIECE), channels), np.float32)
            left -= PIECE

    def _restart(self, missing: Seconds) -> None:
        """Let the time stamps go on from the end of what is there."""
        logger.warning(
            "The time stamps of %s go back by %.2f s at %.2f s; what follows stands after what "
            "precedes.",
            self._path,
            -missing,
            self._end,
        )
        self._zero += missing
