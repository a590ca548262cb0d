"""Weights of our own networks as one safetensors file. Knows no network.

A part that another checkpoint holds, too, such as the encoder that several decoders were trained on, need not lie in
the repository twice: ``shared.json`` beside the weights names the folder that has it.
``python -m zoo.backbones.common.pretrained.weights checkpoints/A encoder checkpoints/B`` takes the encoder out of A
that is B's.
"""

import json
import os
import sys
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from zoo.errors import ZooError, shorten_list

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


def write(module: nn.Module, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write all weights to ``folder`` (made if need be), in ``dtype`` (None: as they are)."""
    folder.mkdir(parents=True, exist_ok=True)
    left_out = tied(module)
    weights = {
        name: tensor.detach().to(dtype or tensor.dtype).contiguous().cpu()
        for name, tensor in module.state_dict().items()
        if name not in left_out
    }
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def read(module: nn.Module, folder: Path) -> None:
    """Fill ``module`` with what ``write`` wrote. Raises ZooError for a damaged file and for weights that do not fit."""
    try:
        missing, unexpected = module.load_state_dict(load(folder), strict=False)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()  # under a headline; one of many
        raise ZooError(f"Checkpoint {str(folder)!r} does not fit the network: {first}") from error
    wrong = [*(set(missing) - tied(module)), *unexpected]
    if wrong:
        raise ZooError(
            f"Checkpoint {str(folder)!r} does not fit the network: {shorten_list(sorted(wrong))}."
        )


def load(folder: Path) -> dict[str, Tensor]:
    """All weights of a checkpoint by name, shared parts included. Raises ZooError for what is missing or damaged."""
    weights = _file(folder / WEIGHTS)
    for part, place in shared(folder).items():
        there = _file(folder / place / WEIGHTS)
        weights |= {name: tensor for name, tensor in there.items() if name.startswith(f"{part}.")}
    return weights


def shared(folder: Path) -> dict[str, str]:
    """Which parts lie in another checkpoint, and where. Raises ZooError for a file that does not say so."""
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


def _file(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ZooError(f"{path} is damaged or no safetensors file ({error}).") from error


def share(folder: Path, part: str, other: Path) -> None:
    """Leave ``part`` of the checkpoint in ``folder`` to the one in ``other``. Raises ZooError unless both are equal."""
    weights, there = _file(folder / WEIGHTS), _file(other / WEIGHTS)
    names = [name for name in weights if name.startswith(f"{part}.")]
    if not names or any(
        name not in there or not _same(weights[name], there[name]) for name in names
    ):
        raise ZooError(
            f"{folder} and {other} do not have the same {part!r}; there is nothing to share."
        )
    parts = shared(folder) | {part: os.path.relpath(other, folder)}
    (folder / SHARED).write_text(json.dumps(parts, indent=2) + "\n", encoding="utf-8")
    kept = {name: tensor for name, tensor in weights.items() if name not in names}
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


if __name__ == "__main__":
    _, where, what, whose = sys.argv
    share(Path(where), what, Path(whose))
