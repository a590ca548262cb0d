"""Weights as safetensors files: of our own networks, and of those that Transformers lays out.

A part that another checkpoint holds as well, such as an encoder on which several decoders were
trained, need not be stored twice: ``shared.json`` beside the weights names the folder that has it.
``python -m zoo.backbones.common.pretrained.weights checkpoints/A encoder checkpoints/B`` removes
the encoder of A if it equals that of B.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from zoo.errors import ZooError, shorten_list
from zoo.files import atomic_file, write_text

WEIGHTS = "model.safetensors"
SHARED = "shared.json"  # part of the network: folder, relative to this one, whose weights hold it


def tied(module: nn.Module) -> set[str]:
    """Names in the state dict that share their storage with an earlier one."""
    seen: dict[int, str] = {}
    return {
        name
        for name, tensor in module.state_dict().items()
        if seen.setdefault(tensor.data_ptr(), name) != name
    }


def exported(module: nn.Module, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """The state dict as every checkpoint stores it.

    Buffers keep their dtype: rounded rotary frequencies would shift late positions by radians. Tied
    weights occur once.

    Args:
        module: The network.
        dtype: Of the parameters (None: as they are).
    """
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    repeated = tied(module)
    return {
        name: tensor.detach().to((dtype if name in parameters else None) or tensor.dtype)
        for name, tensor in module.state_dict().items()
        if name not in repeated
    }


def save_weights(module: nn.Module, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write all weights to ``folder`` (created if need be); see ``exported``."""
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(exported(module, dtype), folder / WEIGHTS)


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file atomically."""
    plain = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
    with atomic_file(path) as temporary:
        save_file(plain, temporary, metadata={"format": "pt"})


def save_pretrained(
    network: PreTrainedModel,
    folder: Path,
    dtype: torch.dtype | None = None,
    *,
    tensors: Mapping[str, Tensor] | None = None,
) -> None:
    """Write weights and config.json as Transformers lays them out.

    Args:
        network: The network.
        folder: Destination.
        dtype: Of the parameters that are written (None: as they are).
        tensors: Weights by name, where they are not the network's own state dict.
    """
    state = exported(network, dtype) if tensors is None else dict(tensors)
    network.save_pretrained(folder, state_dict=state)
    if dtype is not None:  # Transformers writes the dtype of the network in memory
        path = folder / "config.json"
        config = with_dtype(json.loads(path.read_text(encoding="utf-8")), dtype)
        write_text(path, json.dumps(config, indent=2, sort_keys=True) + "\n")


def with_dtype(config: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """A config.json whose ``dtype`` entries, nested ones included, are ``dtype``."""
    name = str(dtype).removeprefix("torch.")
    return {
        key: with_dtype(value, dtype)
        if isinstance(value, dict)
        else name
        if key == "dtype" and value is not None
        else value
        for key, value in config.items()
    }


def check_trained(folder: str, *, noun: str, experiment: str, key: str) -> None:
    """Raise ZooError unless ``folder`` has weights.

    Args:
        folder: Of a checkpoint.
        noun: Name of the backbone, for the message.
        experiment: That trains a small one.
        key: Configuration key under ``backbone`` that names the folder.
    """
    if not (Path(folder) / WEIGHTS).is_file():
        raise ZooError(
            f"There is no trained {noun} in {folder} (no {WEIGHTS}); train one for this language "
            f"pair with python train.py experiment={experiment} target_language=..., or name "
            f"another folder with backbone.{key}=..."
        )


def load_weights(module: nn.Module, folder: Path) -> None:
    """Fill ``module`` with what ``save_weights`` wrote.

    Raises ZooError for damaged or unfit weights.
    """
    try:
        missing, unexpected = module.load_state_dict(read_tensors(folder), strict=False)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()  # under a headline; one of many
        raise ZooError(f"Checkpoint {str(folder)!r} does not fit the network: {first}") from error
    wrong = [*(set(missing) - tied(module)), *unexpected]
    if wrong:
        raise ZooError(
            f"Checkpoint {str(folder)!r} does not fit the network: {shorten_list(sorted(wrong))}."
        )


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All weights of a checkpoint by name, shared parts included.

    Raises ZooError for damaged files.
    """
    tensors = _read_file(folder / WEIGHTS)
    for part, place in shared_parts(folder).items():
        others = _read_file(folder / place / WEIGHTS)
        tensors |= {name: tensor for name, tensor in others.items() if name.startswith(f"{part}.")}
    return tensors


def shared_parts(folder: Path) -> dict[str, str]:
    """Parts that another checkpoint holds, and its folder. Raises ZooError for a damaged file."""
    path = folder / SHARED
    if not path.is_file():
        return {}
    try:
        parts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} is damaged: it must name a folder per part.") from error
    if not (isinstance(parts, dict) and all(isinstance(place, str) for place in parts.values())):
        raise ZooError(f"{path} is damaged: it must name a folder per part.")
    return parts


def share(folder: Path, part: str, other: Path) -> None:
    """Remove ``part`` from the checkpoint in ``folder`` and refer to the one in ``other``.

    Raises:
        ZooError: Unless both are equal.
    """
    weights, others = _read_file(folder / WEIGHTS), _read_file(other / WEIGHTS)
    names = [name for name in weights if name.startswith(f"{part}.")]
    if not names or any(
        name not in others or not _equal(weights[name], others[name]) for name in names
    ):
        raise ZooError(
            f"{folder} and {other} do not have the same {part!r}; there is nothing to share."
        )
    parts = shared_parts(folder) | {part: os.path.relpath(other, folder)}
    write_text(folder / SHARED, json.dumps(parts, indent=2) + "\n")
    kept = {name: tensor for name, tensor in weights.items() if name not in names}
    save_tensors(kept, folder / WEIGHTS)


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ZooError(f"{path} is damaged or no safetensors file ({error}).") from error


def open_tensors(path: Path) -> Any:
    """An open safetensors file. Raises ZooError for one that is missing or damaged."""
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ZooError(f"{path} is missing, damaged or no safetensors file ({error}).") from error


def tensor_files(paths: Iterable[Path]) -> dict[str, Path]:
    """The file of each tensor in ``paths``."""
    files: dict[str, Path] = {}
    for path in paths:
        with open_tensors(path) as file:
            files |= dict.fromkeys(file.keys(), path)
    return files


def read_tensor(path: Path, name: str) -> Tensor:
    """One tensor of a file; the others stay on disk."""
    with open_tensors(path) as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


if __name__ == "__main__":
    share(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
