"""The fingerprint of talks, and the committed one of the built-in test set. Knows no speech and no cache."""

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo.data.talks import Segment, Talk
from zoo.errors import ZooError

FROZEN = Path(__file__).with_name("frozen.json")


def content_hash(talks: Sequence[Talk]) -> str:
    """SHA-256 over names, voices, texts, translations, alignments and word times (milliseconds); not over audio."""
    return hashlib.sha256("".join(map(_content, talks)).encode()).hexdigest()


def audio_hash(talk: Talk) -> str:
    """SHA-256 of the audio file. The last bit of a resampled value may differ from one kind of CPU to another."""
    return hashlib.sha256(talk.file.read_bytes()).hexdigest()


def freeze(split: str, talks: Sequence[Talk], *, path: Path = FROZEN) -> None:
    """Write the fingerprint of a whole split into the committed file."""
    frozen = _frozen(path)
    frozen[split] = {
        "content": content_hash(talks),
        "talks": {talk.name: {"content": _content(talk), "audio": audio_hash(talk)} for talk in talks},
    }
    path.write_text(json.dumps(frozen, indent=2) + "\n", encoding="utf-8")


def check(split: str, talks: Sequence[Talk], *, path: Path = FROZEN) -> None:
    """Compare talks (a whole split or its first few) with the committed fingerprint; a split without one passes.

    Raises ZooError when the content differs; warns when only the audio does.
    """
    frozen = _frozen(path).get(split)
    if frozen is None:
        return
    known = frozen["talks"]
    changed = [talk.name for talk in talks if known.get(talk.name, {}).get("content") != _content(talk)]
    if changed or (len(talks) == len(known) and content_hash(talks) != frozen["content"]):
        raise ZooError(
            f"The built-in {split} set differs from the frozen one ({', '.join(changed) or 'order of talks'}); "
            f"install the pinned versions (constraints) or restore zoo/data/minitalks, or scores are not comparable."
        )
    if loud := [talk.name for talk in talks if known[talk.name]["audio"] != audio_hash(talk)]:
        warnings.warn(
            f"The audio of {', '.join(loud)} differs from the frozen one (texts and times agree).", stacklevel=2
        )


def _frozen(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _content(talk: Talk) -> str:
    item = [
        talk.name,
        talk.voice,
        talk.source_language,
        round(talk.duration * 1000),
        list(map(_segment, talk.segments)),
    ]
    return hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()


def _segment(segment: Segment) -> list[Any]:
    targets = {
        code: [target.text, target.words, target.alignment, target.needs] for code, target in segment.targets.items()
    }
    words = [[word.text, round(word.start * 1000), round(word.end * 1000)] for word in segment.words]
    return [segment.source, round(segment.offset * 1000), round(segment.duration * 1000), words, targets]
