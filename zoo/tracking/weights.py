"""The pretrained models that a run uses: name, revision and hashes of their files."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")  # suffixes of weight files
# suffixes of the other files on which words depend: configurations, tokenizers, dictionaries
DESCRIPTIONS = (".json", ".yaml", ".txt", ".model", ".jinja")
SHA256 = 64  # hexadecimal digits


def models(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Describe the pretrained models that a configuration names and that are on this machine.

    Args:
        config: Plain configuration of the parts of a system. Every text in it that is a folder
            with weights, or a model of the hub in the local cache, counts as a model. A checkpoint
            from which another one takes parts counts as well.

    Returns:
        ``name``, ``revision`` and ``commit`` (None for a folder), and ``files``: the SHA-256 of
        each file by its name.
    """
    names = [text for text in _texts(config) if "/" in text or Path(text).is_dir()]
    names += [str(place) for name in names for place in _shared(Path(name))]
    return [found for name in dict.fromkeys(names) if (found := _model(name)) is not None]


def _shared(folder: Path) -> Iterator[Path]:
    """Yield the folders of the checkpoints from which a checkpoint takes parts."""
    path = folder / "shared.json"
    if path.is_file():
        for place in json.loads(path.read_text(encoding="utf-8")).values():
            yield Path(os.path.normpath(folder / place))


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts among the values of a configuration."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item)


def _model(name: str) -> dict[str, Any] | None:
    """Describe a model, or return None if the name is not one of a model on this machine."""
    folder, revision, commit = Path(name), None, None
    if not folder.is_dir():
        from zoo.backbones.common.pretrained.hub import Source

        source = Source.named(name)
        cached = source.cached()
        if cached is None:
            return None
        folder, revision, commit = cached, source.revision, cached.name
    kept = (*WEIGHTS, *DESCRIPTIONS)
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in kept)
    if not any(path.suffix in WEIGHTS for path in files) and revision is None:
        return None  # a folder of something else, such as a corpus
    return {
        "name": name,
        "revision": revision,
        "commit": commit,
        "files": {path.name: _sha256(path) for path in files},
    }


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file. The cache of the hub names large files by it."""
    blob = path.resolve().name
    if path.is_symlink() and len(blob) == SHA256:
        return blob
    facts = path.stat()
    return _digest(path.resolve(), facts.st_size, facts.st_mtime_ns)


@cache
def _digest(path: Path, size: int, modified: int) -> str:
    """Return the SHA-256 of a file, which is read once for all systems of a comparison.

    Args:
        path: Absolute path of the file.
        size: Size in bytes. A file that has changed is read again.
        modified: Time of modification in nanoseconds.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
