"""Weights of linear layers in 8 bits, for decoding on a CPU.

A product with few rows takes as long as its weight takes to be read from memory, so a decoding step
of one stream is faster with fewer bits per weight. Activations are not quantised: they are rounded
to bfloat16, sums are at least float32, and results are rounded to bfloat16.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.base.errors import ZooError, check_choice
from zoo.base.machine.devices import fast_bfloat16

DecoderWeights = Literal["dtype", "int8"]

LARGEST = 127  # largest integer, so that the integers are symmetric
FEW_ROWS = 16  # largest number of rows for which PyTorch's int8 product is as fast as another one
BLOCK_ELEMENTS = 2**20  # of a weight that are converted at once for more rows; a cache holds them
# PyTorch's product takes so many inputs at once; after a row of another length, it also reads what
# follows in memory.
MULTIPLE = 16


def decoder_weights_named(name: str) -> DecoderWeights:
    """Return the type of the weights of a decoder. Raises ZooError if it is unknown."""
    check_choice("backbone.decoder_weights", name, get_args(DecoderWeights))
    return cast("DecoderWeights", name)


@dataclass(frozen=True, slots=True)
class Int8Weight:
    """A weight as integers, with one scale per output.

    Attributes:
        rows: (outputs, inputs) int8.
        scales: (outputs,) bfloat16; an integer times its scale is the value of the weight.
    """

    rows: Tensor
    scales: Tensor

    @classmethod
    def from_float(cls, weight: Tensor) -> "Int8Weight":
        """Round a weight (outputs, inputs) to the nearest integers; its largest value is 127."""
        rows = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
        scales = torch.empty(len(weight), dtype=torch.bfloat16, device=weight.device)
        size = _rows_per_block(weight)
        blocks = zip(weight.split(size), rows.split(size), scales.split(size), strict=True)
        for values, integers, factors in blocks:
            values = values.to(torch.promote_types(values.dtype, torch.float32))
            smallest = torch.finfo(torch.bfloat16).tiny  # rows of zeros are divided by it
            factors.copy_((values.abs().amax(dim=1) / LARGEST).clamp(min=smallest))
            # The scale is rounded first, so that its rounding adds no error to the weight.
            quotients = values / factors[:, None].to(values.dtype)
            integers.copy_(quotients.round().clamp(-LARGEST, LARGEST))
        return cls(rows, scales)

    def product(self, inputs: Tensor, bias: Tensor | None) -> Tensor:
        """Return ``inputs @ weight.T + bias`` of inputs (..., inputs), in their type."""
        flat = inputs.reshape(-1, inputs.shape[-1]).to(torch.bfloat16).contiguous()
        if 0 < len(flat) <= FEW_ROWS:
            outputs = torch._weight_int8pack_mm(flat, self.rows, self.scales)
        else:
            outputs = self._product_of_many(flat)
        outputs = outputs.to(inputs.dtype).view(*inputs.shape[:-1], len(self.rows))
        return outputs if bias is None else outputs + bias

    def _product_of_many(self, flat: Tensor) -> Tensor:
        """Return the same product (n, outputs) in bfloat16, by blocks of a converted weight.

        The integers are exact in bfloat16. PyTorch's int8 product would read the weight once for
        every few rows.
        """
        dtype = _dtype_of_products()
        flat = flat.to(dtype)
        blocks = self.rows.split(_rows_per_block(self.rows))
        sums = torch.cat([F.linear(flat, block.to(dtype)) for block in blocks], dim=1)
        return (sums * self.scales).to(torch.bfloat16)


class Int8Linear(nn.Linear):
    """A linear layer whose weight is integers, for inference.

    Attributes:
        int8: The weight with its scales.
    """

    int8: Int8Weight

    def forward(self, input: Tensor) -> Tensor:
        """Return the product of inputs (..., inputs) with the weight, plus the bias."""
        return self.int8.product(input, self.bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Raise ZooError: the loaded weights, which a file would contain, are not kept."""
        raise ZooError(
            f"The weights of {prefix}weight were rounded to int8 and cannot be saved; load the "
            "model again with backbone.decoder_weights=dtype."
        )


def quantise(modules: Iterable[nn.Module]) -> None:
    """Replace the weights of those modules that are linear layers by integers, in place.

    A tied weight stays what it is for its other users. Layers whose rows PyTorch's product cannot
    read, and layers of other classes, such as those of a training strategy, keep their weights.

    Raises:
        ZooError: If a weight is not on a CPU, or this PyTorch has no such product.
    """
    with torch.inference_mode(False), torch.no_grad():
        for layer in modules:
            if type(layer) is not nn.Linear or layer.in_features % MULTIPLE:
                continue
            check_int8("backbone.decoder_weights", layer.weight.device.type)
            integers = Int8Weight.from_float(layer.weight)
            layer.weight = nn.Parameter(integers.rows, requires_grad=False)
            layer.__class__ = Int8Linear
            cast("Int8Linear", layer).int8 = Int8Weight(layer.weight, integers.scales)


def check_int8(key: str, device: str) -> None:
    """Check that there is a product with int8 weights.

    Args:
        key: Configuration key of the weights, for the message.
        device: Device of the weights.

    Raises:
        ZooError: If the device is no CPU, or this PyTorch has no such product.
    """
    if device != "cpu":
        raise ZooError(
            f"{key}=int8 is for a CPU, not for {device}; set device=cpu, or {key}=dtype."
        )
    if not hasattr(torch, "_weight_int8pack_mm"):
        raise ZooError(
            f"{key}=int8: PyTorch {torch.__version__} has no product with int8 weights; set "
            f"{key}=dtype."
        )


def _rows_per_block(weight: Tensor) -> int:
    """Return how many rows of a weight have at most ``BLOCK_ELEMENTS`` elements, at least one."""
    return max(1, BLOCK_ELEMENTS // weight.shape[1])


@cache
def _dtype_of_products() -> torch.dtype:
    """Return the type in which this CPU multiplies many rows fastest."""
    return torch.bfloat16 if fast_bfloat16("cpu") else torch.float32
