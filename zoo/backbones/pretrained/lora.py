"""Low-rank adapters (LoRA) of a Transformers network: creating, reading, merging and writing.

peft injects the adapter weights into the adapted layers, so the network keeps its class. Adapter
weights are recognised by name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import peft
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from zoo.backbones.pretrained.weights import (
    export_weights,
    read_tensor,
    save_pretrained,
    save_tensors,
    tensor_files,
)
from zoo.base.disk.parsing import read_json
from zoo.base.errors import ZooError, check_choice, check_numbers, shorten_list

ADAPTER = "speech"
WITHIN = (".lora_A.", ".lora_B.")
BASE = ".base_layer."
FOLDER = "speech-lora"  # subfolder of the adapter files, as in Phi-4-Multimodal's repository
PREFIX = "base_model.model."  # prefix of the adapter weight names in the adapter files


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """Configuration of a LoRA adapter; the defaults are those of Phi-4-Multimodal's speech adapter.

    Attributes:
        rank: Rank of the weight update.
        alpha: Numerator of the scaling factor alpha / rank of the weight update.
        dropout: Probability with which an input of the adapter is dropped in training.
        save: Format of an exported model. merged: the adapter is added to the weights. adapter: the
            base weights are unchanged, and the adapter is written to a subfolder.
    """

    rank: int = 320
    alpha: int = 640
    dropout: float = 0.01
    save: Literal["merged", "adapter"] = "merged"

    def __post_init__(self) -> None:
        """Raises ZooError for a number out of range and an unknown ``save``."""
        check_numbers("A LoRA", least=1, rank=self.rank, alpha=self.alpha)
        if not 0 <= self.dropout < 1:
            raise ZooError(f"A LoRA's dropout is a share from 0 to below 1, not {self.dropout}.")
        check_choice("save of a LoRA", self.save, ("merged", "adapter"))

    @property
    def scaling(self) -> float:
        """LoRA scaling factor."""
        return self.alpha / self.rank

    def peft(self, targets: str | list[str]) -> peft.LoraConfig:
        """Convert to a configuration of peft.

        Args:
            targets: Paths of the adapted layers, or a regular expression for the whole paths.
        """
        return peft.LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=targets,
            bias="none",
        )


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """A trained adapter on disk.

    Attributes:
        config: Rank, alpha and dropout of the adapter.
        files: File of each adapter weight, by weight name.
    """

    config: LoraConfig
    files: Mapping[str, Path]

    def names(self, weight: str) -> tuple[str, str] | None:
        """Return the names of the two LoRA factors A and B of a weight; None if not adapted."""
        stem = weight.removesuffix(".weight")
        for form in (f"{stem}.lora_{{}}.{ADAPTER}.weight", f"{PREFIX}{stem}.lora_{{}}.weight"):
            first, second = (form.format(letter) for letter in "AB")
            if first in self.files and second in self.files:
                return first, second
        return None


def read_adapter(folder: Path) -> LoraAdapter | None:
    """Read the description of the adapter stored with a model.

    Args:
        folder: Folder of the model, whose subfolder ``FOLDER`` holds the adapter.

    Returns:
        The adapter, or None if the subfolder does not exist.

    Raises:
        ZooError: If the adapter's config or weights file is missing or damaged.
    """
    adapter_folder = folder / FOLDER
    if not adapter_folder.is_dir():
        return None
    try:
        settings = read_json(adapter_folder / "adapter_config.json")
    except (OSError, ValueError) as error:
        raise ZooError(
            f"The adapter in {adapter_folder} is damaged: it has no readable adapter_config.json."
        ) from error
    config = lora_config(
        settings, ("r", "lora_alpha", "lora_dropout"), f"adapter_config.json in {adapter_folder}"
    )
    return LoraAdapter(config, tensor_files([adapter_folder / "adapter_model.safetensors"]))


def lora_config(settings: Any, keys: tuple[str, str, str], where: str) -> LoraConfig:
    """Build a configuration from a parsed JSON object.

    Args:
        settings: Parsed JSON value.
        keys: Keys of rank, alpha and dropout in ``settings``.
        where: Name of the JSON file for the error message.

    Raises:
        ZooError: If rank or alpha is missing.
    """
    values = settings if isinstance(settings, dict) else {}
    rank, alpha, dropout = (values.get(key) for key in keys)
    if not (isinstance(rank, int) and isinstance(alpha, int | float)):
        raise ZooError(
            f"The {where} states no rank and alpha of the adapter ({keys[0]}, {keys[1]})."
        )
    return LoraConfig(rank=rank, alpha=int(alpha), dropout=float(dropout or 0.0))


def install(
    network: nn.Module, adapter: LoraAdapter | None, lora: LoraConfig | None, targets: str
) -> None:
    """Add an adapter to a network whose base weights are loaded.

    With ``lora``, separate adapter weights are injected, and a trained adapter fills these weights.
    Without ``lora``, a trained adapter is added to the base weights.

    Args:
        network: Network with its base weights.
        adapter: Trained adapter. None leaves the outputs of the network unchanged: an injected new
            adapter starts with a zero update.
        lora: Configuration of the injected adapter weights. None injects no adapter weights.
        targets: Regular expression for the whole path of each adapted layer.

    Raises:
        ZooError: If the adapter does not fit the network, or its rank or alpha differs from
            ``lora``.
    """
    if lora is not None:
        if adapter is not None and (adapter.config.rank, adapter.config.alpha) != (
            lora.rank,
            lora.alpha,
        ):
            raise ZooError(
                f"The trained speech adapter has rank {adapter.config.rank} and alpha "
                f"{adapter.config.alpha}, but backbone.lora has {lora.rank} and {lora.alpha}."
            )
        inject(network, lora, targets)
    if adapter is None:
        return

    weights = dict(network.named_parameters())
    used: set[str] = set()
    try:
        with torch.no_grad():
            for name, weight in weights.items():
                plain = name.replace(BASE, ".")
                names = None if is_adapter(name) else adapter.names(plain)
                if names is None:
                    continue
                first, second = (read_tensor(adapter.files[name], name) for name in names)
                used |= set(names)
                if lora is None:
                    weight.copy_(added(weight, first, second, adapter.config.scaling))
                else:
                    stem = plain.removesuffix(".weight")
                    weights[f"{stem}.lora_A.{ADAPTER}.weight"].copy_(first)
                    weights[f"{stem}.lora_B.{ADAPTER}.weight"].copy_(second)
    except (KeyError, RuntimeError) as error:
        raise ZooError(
            f"The trained adapter does not fit the network ({' '.join(str(error).split())})."
        ) from error
    if unused := sorted(adapter.files.keys() - used):
        raise ZooError(f"The trained adapter has weights of other layers: {shorten_list(unused)}.")


def inject(network: nn.Module, lora: LoraConfig, targets: str) -> None:
    """Inject a new adapter with a zero update into ``network``.

    Args:
        network: Network to adapt. ``Backbone.trainable`` freezes its base weights.
        lora: Rank, alpha and dropout.
        targets: Regular expression for the *whole* path of each adapted linear layer. A suffix
            would also match layers of an audio encoder.

    Raises:
        ZooError: If no layer matches ``targets``.
    """
    layers = [name for name, _ in network.named_modules() if re.fullmatch(targets, name)]
    if not layers:
        raise ZooError(f"The LoRA adapts {targets}, but the network has no such layer.")
    # Of a mixture of experts, peft would adapt all layers that share the last part of their path
    # with a layer that a regular expression matches.
    peft.inject_adapter_in_model(lora.peft(layers), network, adapter_name=ADAPTER)


def parameters(network: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the adapter parameters of a network."""
    return (parameter for name, parameter in network.named_parameters() if is_adapter(name))


def others(network: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters of a network that belong to no adapter."""
    return (parameter for name, parameter in network.named_parameters() if not is_adapter(name))


def is_adapter(name: str) -> bool:
    """Whether a parameter name belongs to an adapter."""
    return any(marker in name for marker in WITHIN)


def save(
    network: PreTrainedModel,
    folder: Path,
    dtype: torch.dtype | None,
    lora: LoraConfig | None,
    targets: str,
) -> None:
    """Write a network and its adapter in the file layout of Transformers.

    ``lora.save`` selects whether the adapter is merged into the weights or written separately.

    Args:
        network: Network with or without an adapter.
        folder: Destination folder.
        dtype: Dtype of the written parameters. None keeps the dtype of each parameter.
        lora: Configuration of the network's adapter. None if the network has no adapter.
        targets: Regular expression for the whole path of each adapted layer.
    """
    weights = save_adapter(export_weights(network, dtype), folder, lora, targets)
    save_pretrained(network, folder, dtype, tensors=weights)


def save_adapter(
    weights: Mapping[str, Tensor], folder: Path, lora: LoraConfig | None, targets: str
) -> dict[str, Tensor]:
    """Merge the adapter of a network into its weights, or write it to a subfolder of ``folder``.

    Args:
        weights: State dict of the network, adapter weights included.
        folder: Destination folder of the network.
        lora: Configuration of the network's adapter. None if the network has no adapter.
        targets: Regular expression for the whole path of each adapted layer.

    Returns:
        The weights that belong into the files of the network, by their names without an adapter.
    """
    if lora is not None and lora.save == "adapter":
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        lora.peft(targets).save_pretrained(str(folder / FOLDER))
        adapter = {
            f"{PREFIX}{name.replace(f'.{ADAPTER}.', '.')}": tensor
            for name, tensor in weights.items()
            if is_adapter(name)
        }
        save_tensors(adapter, folder / FOLDER / "adapter_model.safetensors")
    scaling = lora.scaling if lora is not None and lora.save == "merged" else 0.0
    return merged(weights, scaling)


def merged(weights: Mapping[str, Tensor], scaling: float) -> dict[str, Tensor]:
    """Return the weights of the network under the names that they have without an adapter.

    Args:
        weights: State dict of the network, adapter weights included.
        scaling: LoRA scaling factor of the added adapter; 0 returns the base weights.
    """
    plain: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if is_adapter(name):
            continue
        first = f"{name.removesuffix('base_layer.weight')}lora_A.{ADAPTER}.weight"
        if scaling and BASE in name and first in weights:
            second = weights[first.replace("lora_A", "lora_B")]
            weight = added(weight, weights[first], second, scaling)
        plain[name.replace(BASE, ".")] = weight
    return plain


def added(weight: Tensor, first: Tensor, second: Tensor, scaling: float) -> Tensor:
    """Return weight + scaling x second @ first, computed at least in float32.

    Args:
        weight: (out, in) base weight.
        first: (rank, in) LoRA factor A.
        second: (out, rank) LoRA factor B.
        scaling: LoRA scaling factor.

    Returns:
        (out, in) in the dtype of ``weight``.
    """
    precise = weight.float() if weight.dtype.itemsize < 4 else weight
    product = second.to(precise.dtype) @ first.to(precise.dtype)
    return (precise + scaling * product).to(weight.dtype)
