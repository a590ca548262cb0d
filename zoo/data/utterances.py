"""Lines spoken by espeak-ng once and kept in the cache folder. Knows no talks, no translation and no network."""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.data.cache import cache_root, locked
from zoo.data.minitalks.speech import Speaker
from zoo.data.minitalks.version import version_name
from zoo.data.talks import Word
from zoo.files import atomic_file
from zoo.progress import tracked
from zoo.types import Samples

UNIT: Samples = 320  # every utterance is a whole number of unit frames
TAIL: Samples = 320  # silence after it, at least: speech ends, it is not cut off
LEVEL = 0.8  # espeak-ng is louder than full scale at times
MOST_WORKERS = 2
SPEECH, INDEX = "speech.pcm", "utterances.jsonl"


@dataclass(frozen=True, slots=True)
class Line:
    """Words and how they are spoken. rate: words a minute; pitch, pitch_range: espeak-ng's scale of 0-99."""

    words: tuple[str, ...]
    voice: str
    rate: int
    pitch: int
    pitch_range: int
    seed: int


class Utterances:
    """Spoken lines, in order. The samples stay on disk until they are asked for.

    samples: (lines,) int64, the length of each.
    """

    def __init__(self, folder: Path) -> None:
        self._index = (folder / INDEX).read_bytes().splitlines()
        self.samples = np.array(
            [json.loads(line)["samples"] for line in self._index], dtype=np.int64
        )
        self._ends = np.cumsum(self.samples)
        self._pcm = np.memmap(folder / SPEECH, dtype=np.int16, mode="r")

    def __len__(self) -> int:
        return len(self._index)

    def speech(self, index: int) -> NDArray[np.float32]:
        """(n,) float32 at 16 kHz; n is a multiple of UNIT."""
        end = self._ends[index]
        return (self._pcm[end - self.samples[index] : end] / np.float32(32768)).astype(
            np.float32, copy=False
        )

    def times(self, index: int) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
        """Words and phonemes, seconds from the first sample."""
        entry = json.loads(self._index[index])
        words, phonemes = ([Word(*word) for word in entry[kind]] for kind in ("words", "phonemes"))
        return tuple(words), tuple(phonemes)


def spoken(lines: Sequence[Line], *, cache: Path | None = None) -> Utterances:
    """Speak what the cache does not have. Broken off, it begins anew the next time.

    Raises ZooError when espeak-ng refuses a voice or a line, or the cache cannot be written.
    """
    folder = cache_root(cache) / f"utterances-{_fingerprint(lines)}"
    if not (folder / INDEX).is_file():
        with locked(folder):
            if not (folder / INDEX).is_file():
                _speak(lines, folder)
    return Utterances(folder)


def _fingerprint(lines: Sequence[Line]) -> str:
    """Hash of all lines and of the version of the synthetic speech."""
    items = [version_name(), UNIT, TAIL, LEVEL, [astuple(line) for line in lines]]
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:12]


def _speak(lines: Sequence[Line], folder: Path) -> None:
    """The index comes last and marks the work done."""
    speakers: SimpleQueue[Speaker] = SimpleQueue()
    with (
        atomic_file(folder / INDEX) as index_path,
        atomic_file(folder / SPEECH) as pcm_path,
        index_path.open("w", encoding="utf-8") as index,
        pcm_path.open("wb") as pcm,
        ExitStack() as stack,
    ):
        workers = min(MOST_WORKERS, os.cpu_count() or 1)
        for _ in range(workers):
            speakers.put(stack.enter_context(Speaker()))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        stack.callback(pool.shutdown, cancel_futures=True)
        spoken = pool.map(lambda line: _one(line, speakers), lines)
        for samples, entry in tracked(spoken, total=len(lines), title="Making clips"):
            pcm.write(samples.tobytes())
            index.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _one(line: Line, speakers: "SimpleQueue[Speaker]") -> tuple[NDArray[np.int16], dict[str, Any]]:
    speaker = speakers.get()
    try:
        said = speaker.speak(
            line.words,
            voice=line.voice,
            rate=line.rate,
            pitch=line.pitch,
            pitch_range=line.pitch_range,
            seed=line.seed,
        )
    finally:
        speakers.put(speaker)
    length = -(-(len(said.samples) + TAIL) // UNIT) * UNIT
    samples = np.zeros(length, dtype=np.int16)
    samples[: len(said.samples)] = (LEVEL * 32768 * said.samples).round().clip(-32768, 32767)
    times = {
        kind: [astuple(word) for word in getattr(said, kind)] for kind in ("words", "phonemes")
    }
    return samples, {"samples": length, **times}
