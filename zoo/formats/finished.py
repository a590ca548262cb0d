"""Log of finished streams that survives a kill: one line per talk, written to disk at once.

Each rank appends to a file of its own, so that ranks never wait for each other. All numbers are
restored bit for bit. The samples of target speech are NumPy files beside the lines.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.errors import ZooError
from zoo.files import atomic_file
from zoo.formats.checks import check_stream
from zoo.parsing import parse_json
from zoo.types import ChunkTime, Instance, SpeechOutput, StageTimes, StreamEvent

PATTERN = "rank*.jsonl"


class FinishedStreams:
    """Finished streams of one row of results.

    Args:
        folder: Folder of the logs of all ranks.
        rank: Rank of this process, which names its log.
    """

    def __init__(self, folder: Path, *, rank: int = 0) -> None:
        self.folder = folder
        self.path = folder / f"rank{rank}.jsonl"

    def append(self, instance: Instance) -> None:
        """Write a finished stream. After the call it survives a kill of the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        record = asdict(replace(instance, speech=()))
        record["speech"] = [_speech_record(piece) for piece in instance.speech]
        if instance.speech:
            with atomic_file(self._samples(instance.index)) as temporary, temporary.open("wb") as f:
                np.save(f, torch.cat([piece.samples for piece in instance.speech]).numpy())

        with self.path.open("ab+") as log:
            _drop_incomplete_line(log)
            log.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            log.flush()
            os.fsync(log.fileno())

    def clear(self) -> None:
        """Remove the log of this rank, which an earlier evaluation has written."""
        self.path.unlink(missing_ok=True)

    def read(self) -> dict[int, Instance]:
        """Return the finished streams of all ranks by index.

        A line that a kill has left incomplete is skipped.

        Raises:
            ZooError: A complete line is damaged, or a file of samples is missing.
        """
        found: dict[int, Instance] = {}
        for path in sorted(self.folder.glob(PATTERN)):
            for line in _complete_lines(path):
                try:
                    instance = self._instance(parse_json(line))
                except (
                    OSError,
                    ValueError,
                    TypeError,
                    LookupError,
                    AttributeError,
                    ArithmeticError,
                ) as error:
                    raise ZooError(
                        f"{path} is damaged ({error}); remove {self.folder} and resume again."
                    ) from error
                found[instance.index] = instance
        return found

    def _instance(self, record: dict[str, Any]) -> Instance:
        pieces = record.pop("speech")
        samples = np.load(self._samples(record["index"])) if pieces else np.zeros(0, np.float32)
        ends = np.cumsum([piece.pop("length") for piece in pieces], dtype=np.int64)
        waves = [torch.from_numpy(wave) for wave in np.split(samples, ends[:-1])]
        chunks = tuple(ChunkTime(**chunk) for chunk in record.pop("chunks"))
        events = tuple(StreamEvent(**event) for event in record.pop("events", ()))
        if record.get("stages") is not None:
            record["stages"] = StageTimes(**record["stages"])
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in record.items()
        }
        speech = tuple(
            SpeechOutput(samples=wave, **piece) for wave, piece in zip(waves, pieces, strict=False)
        )
        instance = Instance(**plain, chunks=chunks, speech=speech, events=events)
        if type(instance.index) is not int:
            raise ValueError(f"index {instance.index!r}")
        # what a network writes may be as strange as it likes, but not of another type
        check_stream(instance, f"stream {instance.index}", forward=False, whole=False)
        return instance

    def _samples(self, index: int) -> Path:
        return self.folder / f"{index:05d}.npy"


def _speech_record(piece: SpeechOutput) -> dict[str, Any]:
    return {
        "length": piece.samples.numel(),
        "delay": piece.delay,
        "elapsed": piece.elapsed,
        "chunk": piece.chunk,
        "text": piece.text,
    }


def _complete_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file that end with a line break."""
    with path.open("rb") as log:
        yield from (line for line in log if line.endswith(b"\n"))


def _drop_incomplete_line(log: Any) -> None:
    """Remove what follows the last line break of a file that is open for appending."""
    log.seek(0)
    content = log.read()
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        log.truncate(complete)
