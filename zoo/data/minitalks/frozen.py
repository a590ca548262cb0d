"""The committed fingerprint of the built-in test set. Knows no speech and no cache."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo.data.fingerprint import audio_hash, content_hash, talk_hash
from zoo.data.talks import Talk
from zoo.errors import ZooError

FROZEN = Path(__file__).with_name("frozen.json")


def freeze(split: str, talks: Sequence[Talk], *, path: Path = FROZEN) -> None:
    """Write the fingerprint of a whole split into the committed file."""
    frozen = _frozen(path)
    frozen[split] = {
        "content": content_hash(talks),
        "talks": {
            talk.name: {"content": talk_hash(talk), "audio": audio_hash(talk)} for talk in talks
        },
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


def _frozen(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
