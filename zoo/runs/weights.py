"""The pretrained models that a system reads: names, revisions and hashes of their files."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.base.disk.files import sha256
from zoo.base.errors import ZooError
from zoo.config.writing import override_key

NETWORKS = ("backbone", "synthesizer")  # parts of a configuration that read weights
TRAINED = ("name", "checkpoint")  # arguments that name all weights of a network
PRETRAINED = ("encoder_weights", "decoder")  # that name weights of its parts if there are no others
REPLACED = ("encoder_weights", "tokenizer", "latency_tokens")  # trained weights have their own
SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")  # of weight files
# suffixes of the other files on which words depend: configurations, tokenizers, dictionaries
DESCRIPTIONS = (".json", ".yaml", ".txt", ".model", ".jinja")
SHA256 = 64  # hexadecimal digits
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def weights_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the hub ids and folders of the models that a system reads, by configuration key.

    Every text in ``NETWORKS`` that is a folder with weights or looks like a hub id counts, under
    any key, except those of the parts of a network whose weights come from one checkpoint.

    Args:
        config: Plain configuration of the system, without links.

    Returns:
        Each model under the first key that names it, in each part.
    """
    found: dict[str, str] = {}
    for part in NETWORKS:
        first: dict[str, str] = {}
        for key, name in _named(part, config.get(part)):
            first.setdefault(name, key)
        found |= {key: name for name, key in first.items()}
    return found


def check_replaced(config: Mapping[str, Any], typed: Sequence[str]) -> None:
    """Check that no typed value gives way to what a folder of trained weights has.

    Args:
        config: Configuration of a system.
        typed: Overrides, as the user has typed them.

    Raises:
        ZooError: A tokenizer or weights of a part are named beside all weights of a network.
    """
    for item in typed:
        part, _, name = override_key(item).partition(".")
        value = item.partition("=")[2]
        if part not in NETWORKS or name not in REPLACED or value == "null":
            continue
        for weights in TRAINED:
            if folder := config[part].get(weights):
                raise ZooError(
                    f"{item} has no effect, because {folder} has its own {name}; leave one of "
                    f"them out ({part}.{weights}=null for the weights)."
                )


def _named(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield key and name of the models in the value of a key."""
    if isinstance(value, str):
        # An empty text is no folder; as a path it would be the current one.
        if _HUB_ID.fullmatch(value) or (value and _weight_files(Path(value))):
            yield key, value
    elif isinstance(value, Mapping):
        whole = any(value.get(name) for name in TRAINED)
        for name, item in value.items():
            if not (whole and name in PRETRAINED):
                yield from _named(f"{key}.{name}", item)
    elif isinstance(value, Sequence):
        for place, item in enumerate(value):
            yield from _named(f"{key}.{place}", item)


def models(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Describe the models of ``weights_of`` that are on this machine.

    Args:
        config: Plain configuration of the system, without links.

    Returns:
        ``name``, ``revision`` and ``commit`` (None for a folder), and ``files``: the SHA-256 of
        each file by its name. A checkpoint from which another one takes parts is described too.
    """
    names = list(weights_of(config).values())
    names += [str(place) for name in names for place in _shared(Path(name))]
    return [found for name in dict.fromkeys(names) if (found := _model(name)) is not None]


def _shared(folder: Path) -> Iterator[Path]:
    """Yield the folders of the checkpoints from which a checkpoint takes parts."""
    if (folder / "shared.json").is_file():
        from zoo.backbones.pretrained.weights import shared_parts

        for place in shared_parts(folder).values():
            yield Path(os.path.normpath(folder / place))


def _model(name: str) -> dict[str, Any] | None:
    """Describe a model, or return None if the name is not one of a model on this machine."""
    folder, revision, commit = Path(name), None, None
    if not folder.is_dir():
        from zoo.backbones.pretrained.hub import ModelSource

        source = ModelSource.from_name(name)
        cached = source.cached()
        if cached is None:
            return None
        folder, revision, commit = cached, source.revision, cached.name
    if revision is None and not _weight_files(folder):
        return None  # a folder of something else, such as a corpus
    kept = (*SUFFIXES, *DESCRIPTIONS)
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in kept)
    return {
        "name": name,
        "revision": revision,
        "commit": commit,
        "files": {path.name: _sha256(path) for path in files},
    }


def _weight_files(folder: Path) -> list[Path]:
    """Return the weight files of a folder; none if it is no folder."""
    try:
        return [path for path in folder.iterdir() if path.suffix in SUFFIXES]
    except OSError:  # also a text that is too long for a path
        return []


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file. The cache of the hub names large files by it."""
    blob = path.resolve().name
    if path.is_symlink() and len(blob) == SHA256:
        return blob
    return sha256(path)
