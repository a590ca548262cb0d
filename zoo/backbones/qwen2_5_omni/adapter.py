"""Reads an adapter (LoRA) that lies beside a network's weights, as ``zoo.backbones.common.lora.save`` leaves it."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from zoo.backbones.common.lora import ADAPTER, FOLDER, LoraConfig, added, inject
from zoo.errors import ZooError

PREFIX = "base_model.model."


def adapted(network: nn.Module, folder: Path, lora: LoraConfig | None, targets: str) -> None:
    """Put the adapter in ``folder``, if there is one, inside ``network``, or add it to the weights (``lora`` is None).

    Without one there, a ``lora`` is new. targets: the layers it adapts. Raises ZooError for one that is damaged, that
    does not fit, or is not what ``lora`` says.
    """
    place = folder / FOLDER
    if not place.is_dir():
        if lora is not None:
            inject(network, lora, targets)
        return
    try:
        told = json.loads((place / "adapter_config.json").read_text())
        there = LoraConfig(rank=told["r"], alpha=told["lora_alpha"])
        weights = load_file(place / "adapter_model.safetensors")
        _fill(network, weights, there, lora, targets)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RuntimeError,
        SafetensorError,
    ) as error:
        raise ZooError(
            f"The adapter in {place} is damaged or does not fit ({' '.join(str(error).split())})."
        ) from error


@torch.no_grad()
def _fill(
    network: nn.Module,
    weights: dict[str, Tensor],
    there: LoraConfig,
    lora: LoraConfig | None,
    targets: str,
) -> None:
    if lora is not None:
        if (lora.rank, lora.alpha) != (there.rank, there.alpha):
            raise ZooError(
                f"The adapter beside the weights has rank {there.rank} and alpha {there.alpha}; backbone.lora says "
                f"{lora.rank} and {lora.alpha}."
            )
        inject(network, lora, targets)
    for name, first in weights.items():
        if not name.endswith(".lora_A.weight"):
            continue
        second = weights[name.replace(".lora_A.", ".lora_B.")]
        layer = name.removeprefix(PREFIX).removesuffix(".lora_A.weight")
        if lora is None:
            weight = network.get_parameter(f"{layer}.weight")
            weight.copy_(added(weight, first, second, there.scaling))
        else:
            network.get_parameter(f"{layer}.lora_A.{ADAPTER}.weight").copy_(first)
            network.get_parameter(f"{layer}.lora_B.{ADAPTER}.weight").copy_(second)
