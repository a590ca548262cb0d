"""Low-rank adapters (LoRA) inside a network of Transformers, through peft. Knows neither a network nor its files.

An adapter lies inside the layers it adapts: the network stays of its class, and names of weights tell what is what.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import peft
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from zoo.backbones.common.pretrained.weights import tied
from zoo.errors import ZooError

ADAPTER = "speech"
WITHIN = (".lora_A.", ".lora_B.")
BASE = ".base_layer."
FOLDER = "speech-lora"  # of an adapter beside the weights, as Microsoft has it


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """An adapter that is trained; the defaults are those of Phi-4-Multimodal's speech adapter.

    rank, alpha, dropout: as in peft; the adapter counts alpha / rank times. save: what an exported model holds:
    weights with the adapter in them, or the weights it started from and the adapter beside them.
    """

    rank: int = 320
    alpha: int = 640
    dropout: float = 0.01
    save: Literal["merged", "adapter"] = "merged"

    def __post_init__(self) -> None:
        """Raises ZooError for an adapter of no rank, and for another way to save."""
        if self.rank < 1:
            raise ZooError(f"A LoRA needs a rank of at least 1, not {self.rank}.")
        if not 0 <= self.dropout < 1:
            raise ZooError(f"A LoRA's dropout is a share from 0 to below 1, not {self.dropout}.")
        if self.save not in ("merged", "adapter"):
            raise ZooError(f"A LoRA is saved as merged or adapter, not {self.save!r}.")

    @property
    def scaling(self) -> float:
        """How often the adapter counts."""
        return self.alpha / self.rank

    def peft(self, targets: str) -> peft.LoraConfig:
        """The same for peft. targets: see ``inject``."""
        return peft.LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=targets,
            bias="none",
        )


def inject(network: nn.Module, lora: LoraConfig, targets: str) -> None:
    """Put a new adapter, which adds nothing yet, inside ``network``; its base weights are frozen by ``trainable``.

    targets: a regular expression for the *whole* path of a linear layer: endings alone would also match the layers of
    an audio encoder. Raises ZooError where none matches.
    """
    try:
        peft.inject_adapter_in_model(lora.peft(targets), network, adapter_name=ADAPTER)
    except ValueError as error:
        raise ZooError(f"The LoRA adapts {targets}, but the network has no such layer.") from error


def parameters(network: nn.Module) -> list[nn.Parameter]:
    """The adapter's."""
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
    """Write a network with or without an adapter (``lora.save``) to ``folder``, as Transformers lays it out.

    dtype: of what is written (None: as it is). targets: see ``inject``.
    """
    left_out = tied(network)
    weights = {
        name: tensor.detach().to(dtype or tensor.dtype)
        for name, tensor in network.state_dict().items()
        if name not in left_out
    }
    if lora is not None and lora.save == "adapter":
        adapter = {
            f"base_model.model.{name}": weights[name] for name in weights if is_adapter(name)
        }
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        lora.peft(targets).save_pretrained(str(folder / FOLDER))
        adapter = {
            name.replace(f".{ADAPTER}.", "."): tensor.contiguous()
            for name, tensor in adapter.items()
        }
        save_file(adapter, folder / FOLDER / "adapter_model.safetensors", metadata={"format": "pt"})
    scaling = lora.scaling if lora is not None and lora.save == "merged" else 0.0
    network.save_pretrained(folder, state_dict=merged(weights, scaling))


def merged(weights: Mapping[str, Tensor], scaling: float) -> dict[str, Tensor]:
    """Weights by their names without an adapter, from those of a network with one, added scaling times."""
    plain: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if is_adapter(name):
            continue
        first = f"{name.removesuffix('base_layer.weight')}lora_A.{ADAPTER}.weight"
        if scaling and BASE in name and first in weights:
            weight = added(
                weight, weights[first], weights[first.replace("lora_A", "lora_B")], scaling
            )
        plain[name.replace(BASE, ".")] = weight
    return plain


def added(weight: Tensor, first: Tensor, second: Tensor, scaling: float) -> Tensor:
    """(out, in) weights plus scaling x second (out, rank) x first (rank, in), computed in float32 at least."""
    precise = weight.float() if weight.dtype.itemsize < 4 else weight
    product = second.to(precise.dtype) @ first.to(precise.dtype)
    return (precise + scaling * product).to(weight.dtype)
