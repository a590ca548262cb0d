"""Committed fingerprints of the built-in corpus: whole test sets, and samples of every split.

``check`` verifies the talks of the test sets in the cache. ``samples`` verifies the generators: a
test compares it with the committed value, so that texts and audio cannot change without a new
version of the corpus (see ``version.py``).
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo.base.disk.files import write_text
from zoo.base.errors import ZooError
from zoo.base.espeak.speech import Speaker
from zoo.base.talks import Talk
from zoo.data.fingerprint import audio_hash, content_hash, talk_hash, targets_content
from zoo.data.minitalks.recording import SPLITS, TalkPlan, plans, record
from zoo.data.minitalks.scene import Audio
from zoo.data.minitalks.version import version_name

logger = logging.getLogger(__name__)

FROZEN = Path(__file__).with_name("frozen.json")
# Samples store mean levels rather than a hash, which would depend on the last bit of resampling.
PARTS = 16  # number of stretches of a talk whose levels are stored
DIGITS = 4  # number of digits of a stored level


def freeze(split: str, talks: Sequence[Talk], *, path: Path = FROZEN) -> None:
    """Write the fingerprint of a whole split to the committed file.

    Args:
        split: name of the split.
        talks: all talks of the split, with their audio files.
        path: the committed file; fingerprints of other splits stay in it.
    """
    frozen = _read(path)
    frozen[split] = {
        "content": content_hash(talks),
        "talks": {
            talk.name: {"content": talk_hash(talk), "audio": audio_hash(talk)} for talk in talks
        },
    }
    _write(path, frozen)


def freeze_samples(path: Path = FROZEN) -> None:
    """Write the samples of this version to the committed file.

    Raises:
        ZooError: the samples changed but the version did not, so existing caches would be wrong.
    """
    frozen, current = _read(path), samples()
    known = frozen.get("samples", {})
    is_changed = any(current.get(split) != sample for split, sample in known.items())
    if frozen.get("version") == version_name() and is_changed:
        raise ZooError(
            f"The generators of minitalks changed but version {version_name()} did not; increase "
            "VERSION in zoo/data/minitalks/version.py, then freeze again."
        )
    frozen.update(version=version_name(), samples=current)
    _write(path, frozen)


def samples() -> dict[str, Any]:
    """Compute the samples of every split.

    Returns:
        By split: ``texts``, a hash of all texts; ``talk``, the hash of the first talk; ``levels``,
        the mean levels of its audio.
    """
    values = {}
    with Speaker() as speaker:
        for split in SPLITS:
            talks = plans(split)
            wave, talk = record(talks[0], speaker=speaker, audio=Path("unused.wav"))
            values[split] = {
                "texts": _texts_hash(talks),
                "talk": talk_hash(talk),
                "levels": _levels(wave),
            }
    return values


def frozen_samples(path: Path = FROZEN) -> tuple[str, dict[str, Any]]:
    """Return the committed version name and samples."""
    frozen = _read(path)
    return frozen["version"], frozen["samples"]


def _texts_hash(talks: Iterable[TalkPlan]) -> str:
    """SHA-256 of everything that the plans determine."""
    digest = hashlib.sha256()
    for talk in talks:
        sentences = [[item.words, targets_content(item.targets)] for item in talk.sentences]
        content = [talk.name, talk.voice, talk.rate, talk.pitch, sentences]
        digest.update(json.dumps(content, sort_keys=True).encode())
    return digest.hexdigest()


def _levels(wave: Audio) -> list[float]:
    """Mean magnitude of each part, and of the difference of adjacent samples (high frequencies)."""
    spans = [*np.array_split(wave, PARTS), np.diff(wave)]
    return [round(float(np.abs(span).mean()), DIGITS) for span in spans]


def check(split: str, talks: Sequence[Talk], *, path: Path = FROZEN) -> None:
    """Compare talks with the committed fingerprint; log a warning if only the audio differs.

    Args:
        split: name of the split; a split without a fingerprint passes.
        talks: the whole split or its first talks.
        path: the committed file.

    Raises:
        ZooError: texts, alignments or times differ.
    """
    frozen = _read(path).get(split)
    if frozen is None:
        return

    frozen_talks = frozen["talks"]
    changed = [
        talk.name
        for talk in talks
        if frozen_talks.get(talk.name, {}).get("content") != talk_hash(talk)
    ]
    if changed or (len(talks) == len(frozen_talks) and content_hash(talks) != frozen["content"]):
        raise ZooError(
            f"The built-in {split} set differs from the frozen one "
            f"({', '.join(changed) or 'order of talks'}), so scores are not comparable; install "
            "the pinned versions (constraints.txt) or restore zoo/data/minitalks."
        )

    different = [
        talk.name for talk in talks if frozen_talks[talk.name]["audio"] != audio_hash(talk)
    ]
    if different:
        logger.warning(
            "The audio of %s differs from the frozen one (texts and times are equal).",
            ", ".join(different),
        )


def _write(path: Path, frozen: dict[str, Any]) -> None:
    write_text(path, json.dumps(frozen, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
