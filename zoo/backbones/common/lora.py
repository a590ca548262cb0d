"""Low-rank adapters (LoRA) inside a network of Transformers, through peft: new, read, merged,
written.

An adapter lies inside the layers that it adapts: the network keeps its class, and the names of
weights tell the adapter's from the others.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import peft
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from zoo.backbones.common.pretrained.weights import (
    exported,
    read_tensor,
    save_pretrained,
    save_tensors,
    tensor_files,
)
from zoo.errors import ZooError, shorten_list

ADAPTER = "speech"
WITHIN = (".lora_A.", ".lora_B.")
BASE = ".base_layer."
FOLDER = "speech-lora"  # of an adapter beside the weights, as Microsoft names it
PREFIX = "base_model.model."  # of an adapter's weights in such a folder


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """An adapter that is trained; the defaults are those of Phi-4-Multimodal's speech adapter.

    Attributes:
        rank: Rank of the update.
        alpha: The update is scaled by alpha / rank.
        dropout: Share of inputs that are dropped in training.
        save: What an exported model holds. merged: weights with the adapter added. adapter: the
            weights it started from, and the adapter in a folder beside them.
    """

    rank: int = 320
    alpha: int = 640
    dropout: float = 0.01
    save: Literal["merged", "adapter"] = "merged"

    def __post_init__(self) -> None:
        """Raises ZooError for a rank below 1, a dropout outside [0, 1) and an unknown ``save``."""
        if self.rank < 1:
            raise ZooError(f"A LoRA needs a rank of at least 1, not {self.rank}.")
        if not 0 <= self.dropout < 1:
            raise ZooError(f"A LoRA's dropout is a share from 0 to below 1, not {self.dropout}.")
        if self.save not in ("merged", "adapter"):
            raise ZooError(f"A LoRA is saved as merged or adapter, not {self.save!r}.")

    @property
    def scaling(self) -> float:
        """LoRA scaling factor."""
        return self.alpha / self.rank

    def peft(self, targets: str) -> peft.LoraConfig:
        """The same configuration for peft; for ``targets`` see ``inject``."""
        return peft.LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=targets,
            bias="none",
        )


@dataclass(frozen=True, slots=True)
class Adapter:
    """A trained adapter on disk.

    Attributes:
        config: Rank and alpha.
        files: The file of each of its weights.
    """

    config: LoraConfig
    files: Mapping[str, Path]

    def names(self, weight: str) -> tuple[str, str] | None:
        """Names of the two factors that update a weight, or None."""
        stem = weight.removesuffix(".weight")
        for form in (f"{stem}.lora_{{}}.{ADAPTER}.weight", f"{PREFIX}{stem}.lora_{{}}.weight"):
            first, second = (form.format(letter) for letter in "AB")
            if first in self.files and second in self.files:
                return first, second
        return None


def read_adapter(folder: Path) -> Adapter | None:
    """The adapter beside the weights in ``folder``, or None. Raises ZooError for a damaged one."""
    place = folder / FOLDER
    if not place.is_dir():
        return None
    try:
        settings = json.loads((place / "adapter_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ZooError(
            f"The adapter in {place} is damaged: it has no readable adapter_config.json."
        ) from error
    config = lora_config(
        settings, ("r", "lora_alpha", "lora_dropout"), f"adapter_config.json in {place}"
    )
    return Adapter(config, tensor_files([place / "adapter_model.safetensors"]))


def lora_config(settings: Any, keys: tuple[str, str, str], where: str) -> LoraConfig:
    """The configuration under the ``keys`` of rank, alpha and dropout.

    Raises ZooError without them.
    """
    found = settings if isinstance(settings, dict) else {}
    rank, alpha, dropout = (found.get(key) for key in keys)
    if not (isinstance(rank, int) and isinstance(alpha, int | float)):
        raise ZooError(
            f"The {where} states no rank and alpha of the adapter ({keys[0]}, {keys[1]})."
        )
    return LoraConfig(rank=rank, alpha=int(alpha), dropout=float(dropout or 0.0))


def install(
    network: nn.Module, adapter: Adapter | None, lora: LoraConfig | None, targets: str
) -> None:
    """Put an adapter into a network that has its weights.

    Args:
        network: With all weights but the adapter's.
        adapter: A trained one; None: a new one, which changes nothing yet, if there is a ``lora``.
        lora: Configuration of an adapter that is kept apart; None: a trained one is added to the
            weights.
        targets: See ``inject``.

    Raises:
        ZooError: For an adapter that does not fit the network or differs from ``lora``.
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
    """Put a new adapter, which changes nothing yet, into ``network``.

    Args:
        network: Its base weights are frozen by ``Backbone.trainable``.
        lora: Rank, alpha and dropout.
        targets: Regular expression for the *whole* path of a linear layer; a suffix would also
            match layers of an audio encoder.

    Raises:
        ZooError: Where no layer matches.
    """
    try:
        peft.inject_adapter_in_model(lora.peft(targets), network, adapter_name=ADAPTER)
    except ValueError as error:
        raise ZooError(f"The LoRA adapts {targets}, but the network has no such layer.") from error


def parameters(network: nn.Module) -> list[nn.Parameter]:
    """The adapter's parameters."""
    return [parameter for name, parameter in network.named_parameters() if is_adapter(name)]


def is_adapter(name: str) -> bool:
    """Whether a parameter's name is one of an adapter's."""
    return any(within in name for within in WITHIN)


def save(
    network: PreTrainedModel,
    folder: Path,
    dtype: torch.dtype | None,
    lora: LoraConfig | None,
    targets: str,
) -> None:
    """Write a network, and its adapter as ``lora.save`` states, as Transformers lays them out.

    Args:
        network: With or without an adapter.
        folder: Destination.
        dtype: Of the parameters that are written (None: as they are).
        lora: The adapter's configuration (None: there is none).
        targets: See ``inject``.
    """
    weights = exported(network, dtype)
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
    save_pretrained(network, folder, dtype, tensors=merged(weights, scaling))


def merged(weights: Mapping[str, Tensor], scaling: float) -> dict[str, Tensor]:
    """Weights under their names without an adapter; the adapter is added, scaled by ``scaling``."""
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
    """weight + scaling x second @ first, computed at least in float32.

    Args:
        weight: (out, in).
        first: (rank, in).
        second: (out, rank).
        scaling: LoRA scaling factor.
    """
    precise = weight.float() if weight.dtype.itemsize < 4 else weight
    product = second.to(precise.dtype) @ first.to(precise.dtype)
    return (precise + scaling * product).to(weight.dtype)
