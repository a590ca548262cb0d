"""Weights of our own networks as one safetensors file. Knows no network."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from zoo.errors import ZooError, some

WEIGHTS = "model.safetensors"


def tied(module: nn.Module) -> set[str]:
    """Names in the state dict that share their storage with an earlier one."""
    seen: dict[int, str] = {}
    return {name for name, tensor in module.state_dict().items() if seen.setdefault(tensor.data_ptr(), name) != name}


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
    path = folder / WEIGHTS
    try:
        missing, unexpected = module.load_state_dict(load_file(path), strict=False)
    except (SafetensorError, OSError) as error:
        raise ZooError(f"{path} is damaged or no safetensors file ({error}).") from error
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()  # under a headline; one of many
        raise ZooError(f"Checkpoint {str(folder)!r} does not fit the network: {first}") from error
    wrong = [*(set(missing) - tied(module)), *unexpected]
    if wrong:
        raise ZooError(f"Checkpoint {str(folder)!r} does not fit the network: {some(sorted(wrong))}.")
