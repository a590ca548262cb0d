"""The committed fingerprints of the built-in corpus: all of tst, and samples of every split.

``check`` guards the talks of the test set in the cache. ``samples`` guards the generators: a test computes it again, so
that a change of texts or audio cannot happen without a new version of the corpus (see version).
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data.fingerprint import audio_hash, content_hash, talk_hash, targets_content
from zoo.data.minitalks.recording import SPLITS, Audio, Plan, plans, record
from zoo.data.minitalks.speech import Speaker
from zoo.data.minitalks.version import version_name
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.files import write_text

FROZEN = Path(__file__).with_name("frozen.json")
PARTS = 16  # of a talk, whose mean levels are compared: a hash would depend on the last bit of resampling
DIGITS = 4  # of a level


def freeze(split: str, talks: Sequence[Talk], *, path: Path = FROZEN) -> None:
    """Write the fingerprint of a whole split into the committed file."""
    frozen = _frozen(path)
    frozen[split] = {
        "content": content_hash(talks),
        "talks": {
            talk.name: {"content": talk_hash(talk), "audio": audio_hash(talk)} for talk in talks
        },
    }
    _write(path, frozen)


def freeze_samples(path: Path = FROZEN) -> None:
    """Write the samples of this version into the committed file.

    Raises ZooError when they differ from those of the same version, which caches may already contain.
    """
    frozen, current = _frozen(path), samples()
    if frozen.get("version") == version_name() and frozen["samples"] != current:
        raise ZooError(
            f"The generators of minitalks changed but version {version_name()} did not; "
            f"raise VERSION in zoo/data/minitalks/version.py, then freeze again."
        )
    frozen.update(version=version_name(), samples=current)
    _write(path, frozen)


def samples() -> dict[str, Any]:
    """Of every split: a hash of all texts, the hash of the first talk and the levels of its audio."""
    found = {}
    with Speaker() as speaker:
        for split in SPLITS:
            talks = plans(split)
            wave, talk = record(talks[0], speaker=speaker, audio=Path("unused.wav"))
            texts = _texts_hash(talks)
            found[split] = {"texts": texts, "talk": talk_hash(talk), "levels": _levels(wave)}
    return found


def frozen_samples(path: Path = FROZEN) -> tuple[str, dict[str, Any]]:
    """Version name and samples as committed."""
    frozen = _frozen(path)
    return frozen["version"], frozen["samples"]


def _texts_hash(talks: Iterable[Plan]) -> str:
    """SHA-256 over what every talk's plan decides."""
    digest = hashlib.sha256()
    for talk in talks:
        sentences = [[said.words, targets_content(said.targets)] for said in talk.sentences]
        item = [talk.name, talk.voice, talk.rate, talk.pitch, sentences]
        digest.update(json.dumps(item, sort_keys=True).encode())
    return digest.hexdigest()


def _levels(wave: Audio) -> list[float]:
    """Mean absolute sample of every part, then of the difference of neighbours (high frequencies)."""
    parts = [*np.array_split(wave, PARTS), np.diff(wave)]
    return [round(float(np.abs(part).mean()), DIGITS) for part in parts]


def check(split: str, talks: Sequence[Talk], *, path: Path = FROZEN) -> None:
    """Compare talks (a whole split or its first few) with the committed fingerprint; a split without one passes.

    Raises ZooError when the content differs; warns when only the audio does.
    """
    frozen = _frozen(path).get(split)
    if frozen is None:
        return
    known = frozen["talks"]
    changed = [
        talk.name for talk in talks if known.get(talk.name, {}).get("content") != talk_hash(talk)
    ]
    if changed or (len(talks) == len(known) and content_hash(talks) != frozen["content"]):
        raise ZooError(
            f"The built-in {split} set differs from the frozen one ({', '.join(changed) or 'order of talks'}); "
            f"install the pinned versions (constraints) or restore zoo/data/minitalks, or scores are not comparable."
        )
    if loud := [talk.name for talk in talks if known[talk.name]["audio"] != audio_hash(talk)]:
        warnings.warn(
            f"The audio of {', '.join(loud)} differs from the frozen one (texts and times agree).",
            stacklevel=2,
        )


def _write(path: Path, frozen: dict[str, Any]) -> None:
    write_text(path, json.dumps(frozen, indent=2) + "\n")


def _frozen(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
