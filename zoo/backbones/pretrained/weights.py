"""Reading and writing of weights as safetensors files.

A checkpoint may share a part, such as an encoder on which several decoders were trained, with
another checkpoint. The file ``shared.json`` next to the weights then names the folder of the other
checkpoint (``share.py``).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.initialization import no_init_weights

from zoo.backbones.base import check_finite, is_empty, mark_restored, reads_shapes
from zoo.backbones.pretrained.messages import quiet
from zoo.base.disk.files import atomic_file, check_regular, write_text
from zoo.base.disk.parsing import read_json
from zoo.base.errors import ZooError, shorten_list
from zoo.base.machine.hints import job_command

WEIGHTS = "model.safetensors"
# Types of weights and of counters beside them. The others belong to quantized models, whose scales
# a network in float32 lacks, or lose a part of each value.
STORED = ("F64", "F32", "F16", "BF16", "I64", "I32")
LARGEST_HEADER = 2**24  # bytes that describe the tensors of a file
MOST_TENSORS = 50_000  # of a file; the largest models here have half as many
SHARED = "shared.json"  # maps a part of the network to the relative path of another checkpoint


def tied_names(module: nn.Module) -> set[str]:
    """Return the names in the state dict whose tensor shares the storage of an earlier name."""
    seen: dict[int, str] = {}
    return {
        name
        for name, tensor in module.state_dict().items()
        if seen.setdefault(tensor.data_ptr(), name) != name
    }


def export_weights(module: nn.Module, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Return the state dict in the form in which checkpoints store weights.

    Buffers keep their dtype, because rounded rotary frequencies would shift late positions by
    radians. Tied weights occur once.

    Args:
        module: Network.
        dtype: Dtype of the parameters. None keeps the dtype of each parameter.
    """
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    repeated = tied_names(module)
    return {
        name: tensor.detach().to((dtype if name in parameters else None) or tensor.dtype)
        for name, tensor in module.state_dict().items()
        if name not in repeated
    }


def save_weights(module: nn.Module, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write all weights to ``model.safetensors`` in ``folder``, which is created if missing.

    Args:
        module: Network.
        folder: Destination folder.
        dtype: Dtype of the written parameters. None keeps the dtype of each parameter.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(export_weights(module, dtype), folder / WEIGHTS)


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
    """Write weights and config.json in the file layout of Transformers.

    Args:
        network: Network of Transformers.
        folder: Destination folder.
        dtype: Dtype of the written parameters. None keeps the dtype of each parameter.
        tensors: Weights by name. None writes the state dict of ``network``.
    """
    state = export_weights(network, dtype) if tensors is None else dict(tensors)
    with quiet():
        network.save_pretrained(folder, state_dict=state)
    if dtype is not None:  # Transformers writes the dtype of the network in memory
        path = folder / "config.json"
        config = with_dtype(read_json(path), dtype)
        write_text(path, json.dumps(config, indent=2, sort_keys=True) + "\n")


def with_dtype(config: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Return a copy of a parsed config.json with all ``dtype`` entries set, also nested ones."""
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
    """Check that a checkpoint folder contains weights.

    Args:
        folder: Folder of the checkpoint.
        noun: Name of the backbone, for the error message.
        experiment: Name of the experiment that trains a small model, for the error message.
        key: Configuration key under ``backbone`` that takes the folder.

    Raises:
        ZooError: If the folder has no ``model.safetensors``.
    """
    if not (Path(folder) / WEIGHTS).is_file():
        others = sorted(Path(folder).parent.glob(f"{experiment}_*/{WEIGHTS}"))
        pairs = [path.parent.name.removeprefix(f"{experiment}_") for path in others]
        found = f", only in those beside it for {', '.join(pairs)}" if pairs else ""
        training = ""
        if Path(folder).name.startswith(f"{experiment}_"):  # where its small model would be
            training = (
                f"train one for this language pair with {job_command('train')} "
                f"experiment={experiment} target_language=..., or "
            )
        raise ZooError(
            f"There is no trained {noun} in {folder} (no {WEIGHTS}){found}; {training}name another "
            f"folder with backbone.{key}=..."
        )


@contextmanager
def without_initial_values(skipped: bool = True) -> Iterator[None]:
    """Create networks without initial values, because ``load_weights`` follows.

    Values that are never written take no main memory. A network that is created in float32 and then
    converted to bfloat16 therefore takes no more memory than its bfloat16 weights.

    Args:
        skipped: Whether initial values are skipped. False initialises as usual.
    """
    with no_init_weights() if skipped else nullcontext():
        yield


@torch.no_grad()
def load_weights(module: nn.Module, folder: Path) -> None:
    """Load weights that ``save_weights`` wrote into ``module``.

    One tensor is read at a time, so the main memory holds no second copy of the weights.

    Raises:
        ZooError: If a file is damaged, or names or shapes differ from the network.
    """
    if is_empty():
        mark_restored(module)
        return
    files = checkpoint_files(folder)
    state = module.state_dict()
    wrong = (state.keys() - tied_names(module) - files.keys()) | (files.keys() - state.keys())
    if wrong:
        raise ZooError(
            f"Checkpoint {str(folder)!r} does not fit the network: {shorten_list(sorted(wrong))}."
        )
    for name, path in files.items():
        tensor = read_tensor(path, name)
        if tensor.shape != state[name].shape:
            raise ZooError(
                f"Checkpoint {str(folder)!r} does not fit the network: {name} has shape "
                f"{list(tensor.shape)}, the network needs {list(state[name].shape)}."
            )
        is_same_kind = tensor.is_floating_point() == state[name].is_floating_point()
        if not tensor.is_meta and not is_same_kind:  # the meta device has shapes without types
            raise ZooError(
                f"Checkpoint {str(folder)!r} does not fit the network: {name} has the type "
                f"{tensor.dtype}, the network needs {state[name].dtype}."
            )
        state[name].copy_(tensor)
    check_finite(module, str(folder))
    mark_restored(module)


def checkpoint_files(folder: Path) -> dict[str, Path]:
    """Return the file of each weight of a checkpoint, by name, also of shared parts.

    Raises:
        ZooError: If a file is missing or damaged.
    """
    files = tensor_files([folder / WEIGHTS])
    for part, location in shared_parts(folder).items():
        others = tensor_files([folder / location / WEIGHTS])
        files |= {name: path for name, path in others.items() if name.startswith(f"{part}.")}
    return files


def shared_parts(folder: Path) -> dict[str, str]:
    """Return the shared parts of a checkpoint and the relative path of each part's checkpoint.

    Raises:
        ZooError: If ``shared.json`` is damaged.
    """
    path = folder / SHARED
    if not path.is_file():
        return {}
    try:
        locations = read_json(path)
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} is damaged: it must name a folder per part.") from error
    if not (
        isinstance(locations, dict)
        and all(isinstance(location, str) for location in locations.values())
    ):
        raise ZooError(f"{path} is damaged: it must name a folder per part.")
    return locations


def read_file(path: Path) -> dict[str, Tensor]:
    """Return all tensors of a file. Raises ZooError if the file is missing or damaged."""
    with open_tensors(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (as below)


def open_tensors(path: Path) -> Any:
    """Open a safetensors file.

    Raises:
        ZooError: If the file is missing or damaged, or has more tensors than a model.
    """
    check_regular(path)
    try:
        with path.open("rb") as stored:
            header = int.from_bytes(stored.read(8), "little")
        if header > LARGEST_HEADER:
            raise ZooError(f"{path} is damaged, or no model: it has a header of {header} bytes.")
        file: Any = safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ZooError(f"{path} is missing, damaged or no safetensors file ({error}).") from error
    if len(file.keys()) > MOST_TENSORS:
        raise ZooError(f"{path} has {len(file.keys())} tensors; no model has so many.")
    return file


def tensor_files(paths: Iterable[Path]) -> dict[str, Path]:
    """Return the file of each tensor in ``paths``, by tensor name."""
    files: dict[str, Path] = {}
    for path in paths:
        with open_tensors(path) as file:
            for name in file.keys():  # noqa: SIM118 (the file is no mapping)
                if (kind := file.get_slice(name).get_dtype()) not in STORED:
                    raise ZooError(
                        f"{path} has {name} as {kind}, which is no type of weights here; save the "
                        "model in float32, float16 or bfloat16."
                    )
                files[name] = path
    return files


def read_tensor(path: Path, name: str) -> Tensor:
    """Read one tensor of a safetensors file without reading the other tensors.

    Within ``shapes_of_weights`` the tensor has no values.
    """
    with open_tensors(path) as file:
        if reads_shapes():
            return torch.empty(file.get_slice(name).get_shape(), device="meta")
        tensor: Tensor = file.get_tensor(name)
    return tensor
