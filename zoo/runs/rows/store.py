"""The streams of a row on disk: ``streams.jsonl``, one line per talk, written when a talk ends.

A stream is written once. Scores, logs for other tools and pages are computed from this file, and a
resumed run streams the talks that it lacks. A line survives a kill of the process. All numbers are
restored bit for bit; the samples of target speech are NumPy files in the folder ``samples``.

Each rank appends to a file of its own, so that ranks never wait for each other: rank 0 to
``streams.jsonl``, rank 1 to ``streams.1.jsonl``.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo.base.disk.files import atomic_file, check_regular
from zoo.base.disk.parsing import LARGEST_FILE as LARGEST
from zoo.base.disk.parsing import MALFORMED, parse_json
from zoo.base.errors import ZooError
from zoo.base.types import ChunkTime, Instance, SpeechOutput, StageTimes
from zoo.formats.checks import check_stream, read_event

PATTERN = "streams*.jsonl"
SAMPLES = "samples"  # folder of the samples of target speech


class StreamStore:
    """Streams of one row of results.

    Args:
        folder: Folder of the row.
        rank: Rank of this process, which names the file that it writes.
    """

    def __init__(self, folder: Path, *, rank: int = 0) -> None:
        self.folder = folder
        self.path = folder / _file_name(rank)

    def append(self, instance: Instance) -> None:
        """Write a finished stream. After the call it survives a kill of the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as log:
            _drop_incomplete_line(log)
            log.write(self._line(instance))
            log.flush()
            os.fsync(log.fileno())

    def write(self, instances: Iterable[Instance]) -> None:
        """Write streams that exist already, such as those of a recorded log, and no others."""
        self.clear()
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.path) as temporary, temporary.open("wb") as log:
            log.writelines(map(self._line, instances))

    def clear(self, *, ranks: int = 1) -> None:
        """Remove the streams that this rank has written in an earlier evaluation.

        Rank 0 also removes those of the ranks that the new evaluation does not have.

        Args:
            ranks: Number of ranks of the new evaluation.
        """
        self.path.unlink(missing_ok=True)
        if self.path.name == _file_name(0):
            present = {_file_name(rank) for rank in range(ranks)}
            for path in self.folder.glob(PATTERN):
                if path.name not in present:
                    path.unlink()

    def read(self, *, samples: bool = True) -> dict[int, Instance]:
        """Return the streams of all ranks by index.

        A line that a kill has left incomplete is skipped.

        Args:
            samples: Whether the samples of target speech are read. Otherwise they are silence that
                takes no memory; an hour of speech has 230 MB.

        Raises:
            ZooError: A complete line is damaged, or a file of samples is missing.
        """
        streams: dict[int, Instance] = {}
        for path in sorted(self.folder.glob(PATTERN)):
            for line in _complete_lines(path):
                try:
                    instance = self._instance(parse_json(line), samples=samples)
                # RuntimeError of torch, for an impossible length
                except (OSError, RuntimeError, *MALFORMED) as error:
                    raise ZooError(
                        f"{path} is damaged ({error}); remove it and resume the run."
                    ) from error
                streams[instance.index] = instance
        return dict(sorted(streams.items()))

    def _line(self, instance: Instance) -> bytes:
        """Return the line of a stream, after its samples are written."""
        record = asdict(replace(instance, speech=()))
        record["speech"] = [_speech_record(piece) for piece in instance.speech]
        if instance.speech:
            path = self._samples(instance.index)
            path.parent.mkdir(exist_ok=True)
            with atomic_file(path) as temporary, temporary.open("wb") as file:
                np.save(file, np.concatenate([one.samples.numpy() for one in instance.speech]))
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"

    def _instance(self, record: dict[str, Any], *, samples: bool) -> Instance:
        """Return the stream of a line; ``samples`` as in ``read``."""
        pieces = record.pop("speech")
        lengths = [piece.pop("length") for piece in pieces]
        waves = self._waves(record["index"], lengths, samples=samples) if pieces else []
        chunks = tuple(ChunkTime(**chunk) for chunk in record.pop("chunks"))
        events = tuple(map(read_event, record.pop("events", ())))
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

    def _waves(self, index: int, lengths: Sequence[int], *, samples: bool) -> list[Any]:
        """Return the samples of the pieces of speech of a stream; ``samples`` as in ``read``."""
        import torch  # a slow import, which streams of text do not need

        if not samples:
            return [torch.zeros(1).expand(length) for length in lengths]
        path = self._samples(index)
        check_regular(path)
        # a header may declare any size, of which the map compares that of the file
        values = np.lib.format.open_memmap(path, mode="r")
        if values.dtype != np.float32 or values.shape != (sum(lengths),):
            raise ValueError(f"{path} has {values.dtype} of shape {values.shape}")
        ends = np.cumsum(lengths, dtype=np.int64)
        return [torch.from_numpy(wave) for wave in np.split(np.array(values), ends[:-1])]

    def _samples(self, index: int) -> Path:
        """Return the path of the samples of a stream."""
        return self.folder / SAMPLES / f"{index:05d}.npy"


def _file_name(rank: int) -> str:
    """Return the name of the file that a rank writes."""
    return f"streams.{rank}.jsonl" if rank else "streams.jsonl"


def _speech_record(piece: SpeechOutput) -> dict[str, Any]:
    return {
        "length": piece.samples.numel(),
        "delay": piece.delay,
        "elapsed": piece.elapsed,
        "chunk": piece.chunk,
        "text": piece.text,
    }


def _complete_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file that end with a line break.

    Raises ZooError for a pipe, and for a line that is longer than any stream.
    """
    check_regular(path)
    with path.open("rb") as log:
        while line := log.readline(LARGEST):
            if line.endswith(b"\n"):
                yield line
            elif len(line) == LARGEST:
                raise ZooError(f"{path} has a line of more than {LARGEST} bytes.")


def _drop_incomplete_line(log: Any) -> None:
    """Remove what follows the last line break of a file that is open for appending."""
    log.seek(0)
    content = log.read()
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        log.truncate(complete)
