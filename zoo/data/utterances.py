"""Utterances synthesised by espeak-ng once and kept in the cache folder."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.base.disk.files import atomic_file
from zoo.base.espeak.speech import Speaker, in_parallel
from zoo.base.progress import show_progress
from zoo.base.talks import Word
from zoo.base.types import Samples
from zoo.data.cache import cache_root, is_intact, lock_folder, seal, seal_if_complete
from zoo.data.minitalks.version import version_name

UNIT: Samples = 320  # samples of a unit frame; the length of an utterance is a multiple of this
TAIL: Samples = 320  # minimum silence at the end
LEVEL = 0.8  # gain below 1, because samples of espeak-ng sometimes exceed full scale
MAX_WORKERS = 2  # maximum number of espeak-ng processes
SPEECH, INDEX = "speech.pcm", "utterances.jsonl"


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """A text with the settings of its synthesis.

    Attributes:
        words: words with punctuation.
        voice: name of the voice of espeak-ng.
        rate: speaking rate in words per minute.
        pitch: base pitch on espeak-ng's scale of 0 to 99.
        pitch_range: intonation range on the same scale; 0 is monotonous.
        seed: seed of the synthesis.
    """

    words: tuple[str, ...]
    voice: str
    rate: int
    pitch: int
    pitch_range: int
    seed: int


class Utterances:
    """Synthesised lines in their order; the samples of a line are read from disk when needed.

    Args:
        folder: cache folder of the utterances.

    Attributes:
        samples: (lines,) int64, length of each utterance.
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
        """Return the waveform (n,) float32 at 16 kHz; n is a multiple of ``UNIT``."""
        end = self._ends[index]
        pcm = self._pcm[end - self.samples[index] : end]
        return (pcm / np.float32(32768)).astype(np.float32, copy=False)

    def times(self, index: int) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
        """Return words and phonemes with times in seconds from the first sample."""
        entry = json.loads(self._index[index])
        words = tuple(Word(*word) for word in entry["words"])
        phonemes = tuple(Word(*phoneme) for phoneme in entry["phonemes"])
        return words, phonemes


def read_utterances(lines: Sequence[SpokenLine], *, cache: Path | None = None) -> Utterances:
    """Read the utterances of ``lines`` from the cache, or synthesise all of them.

    An interrupted synthesis starts again the next time, and damaged files are made again.

    Args:
        lines: texts to synthesise.
        cache: root of the cache folders (None: the default).

    Raises:
        ZooError: espeak-ng refuses a voice or a text, or the cache cannot be written.
    """
    folder = cache_root(cache) / f"utterances-{_fingerprint(lines)}"
    files = [folder / INDEX, folder / SPEECH]
    if not all(map(is_intact, files)):
        with lock_folder(folder):
            if not all(map(seal_if_complete, files)):
                _speak(lines, folder)
                for file in files:
                    seal(file)
    return Utterances(folder)


def _fingerprint(lines: Sequence[SpokenLine]) -> str:
    """Return a hash of all lines and of the version of the synthetic speech."""
    items = [version_name(), UNIT, TAIL, LEVEL, [astuple(line) for line in lines]]
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:12]


def _speak(lines: Sequence[SpokenLine], folder: Path) -> None:
    """Synthesise all lines; the index is renamed last, so that it marks complete work."""
    workers = min(MAX_WORKERS, os.cpu_count() or 1)
    with (
        atomic_file(folder / INDEX) as index_path,
        atomic_file(folder / SPEECH) as pcm_path,
        index_path.open("w", encoding="utf-8") as index,
        pcm_path.open("wb") as pcm,
    ):
        clips = in_parallel(_one, lines, workers=workers)
        for samples, entry in show_progress(clips, total=len(lines), title="Making clips"):
            pcm.write(samples.tobytes())
            index.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _one(speaker: Speaker, line: SpokenLine) -> tuple[NDArray[np.int16], dict[str, Any]]:
    utterance = speaker.speak(**asdict(line))
    length = -(-(len(utterance.samples) + TAIL) // UNIT) * UNIT
    samples = np.zeros(length, dtype=np.int16)
    samples[: len(utterance.samples)] = (
        (LEVEL * 32768 * utterance.samples).round().clip(-32768, 32767)
    )
    times = {
        kind: [astuple(word) for word in getattr(utterance, kind)] for kind in ("words", "phonemes")
    }
    return samples, {"samples": length, **times}
