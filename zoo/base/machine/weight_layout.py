"""Memory layout of the weights of linear layers, and joined products, for inference."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.base.machine.devices import fast_bfloat16
from zoo.base.machine.int8 import Int8Linear, Int8Weight

# Elements of a packed weight: oneDNN prepares every new shape of a product, which takes longer than
# the products of smaller weights save.
LEAST_ELEMENTS = 2**18
MOST_BYTES = 2 * 2**30  # largest size of the weights of a network that gets packed copies

Product = Callable[[Tensor], Tensor]


# A protocol, because this module is below the backbones: a family's layers implement it.
@runtime_checkable
class Packable(Protocol):
    """A module that has matrix products besides those of linear layers."""

    def pack(self) -> None:
        """Give large weights packed copies."""


def arrange_linear(module: nn.Module, *, packed: Collection[nn.Module] = ()) -> None:
    """Give the weights of linear layers on a CPU a faster layout, in place.

    Weights in float32 are stored by column: with MKL on AMD processors, the product of one frame
    with a vocabulary takes a third of the time. Large weights get a packed copy, in float32 for
    products with several frames, in bfloat16 for all. Shapes, values and tied weights stay the
    same; rounding may differ in the last bits.

    Args:
        module: Module whose linear layers, at any depth, are changed.
        packed: Layers whose weights are already part of a packed copy.
    """
    packs = fits(module)
    # By the address of the weight, so that tied layers share a copy.
    copies: dict[int, PackedWeight] = {}
    for layer in module.modules():
        if packs and isinstance(layer, Packable):
            layer.pack()
        if not isinstance(layer, nn.Linear) or layer in packed:
            continue
        weight = layer.weight
        if _stored_by_row(weight):
            with torch.inference_mode(False), torch.no_grad():
                weight.data = weight.data.T.contiguous().T
        if packs and type(layer) is nn.Linear and can_pack(weight):
            address = weight.data_ptr()
            if address not in copies:
                copies[address] = PackedWeight(weight)
            layer.__class__ = PackedLinear
            cast("PackedLinear", layer).packed = copies[address]


def _stored_by_row(weight: Tensor) -> bool:
    """Whether a weight can be arranged and is not arranged yet."""
    return (
        _is_plain(weight)
        and weight.dtype == torch.float32
        and weight.is_contiguous()
        and min(weight.shape) > 1
    )


def _is_plain(weight: Tensor) -> bool:
    """Whether a weight is a matrix on a CPU and no tensor of a training strategy.

    The data of a weight that was made in inference mode cannot be exchanged.
    """
    return (
        type(weight.data) is Tensor
        and not weight.is_inference()
        and weight.device.type == "cpu"
        and weight.dim() == 2
    )


def fits(module: nn.Module) -> bool:
    """Whether packed copies of the weights of a module take at most ``MOST_BYTES``."""
    return sum(weight.nbytes for weight in module.parameters() if can_pack(weight)) <= MOST_BYTES


def can_pack(weight: Tensor) -> bool:
    """Whether a weight can be packed, and is large enough that this saves time."""
    return (
        _is_plain(weight)
        and (weight.dtype == torch.float32 or _multiplies_bfloat16(weight))
        and weight.numel() >= LEAST_ELEMENTS
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def _multiplies_bfloat16(weight: Tensor) -> bool:
    """Whether a weight is bfloat16 and this CPU has instructions for its products."""
    return weight.dtype == torch.bfloat16 and fast_bfloat16("cpu")


def state_of(weight: Tensor) -> tuple[Any, ...]:
    """Identify the values of a weight: a change in place or a move gives another state."""
    try:
        version = weight._version
    except RuntimeError:  # weights that were created in inference mode have no version
        version = None
    return weight.data_ptr(), version, weight.dtype, weight.device


def weight_state(network: nn.Module) -> list[tuple[Any, ...]]:
    """Identify the values of all weights.

    ``parameters()`` composes the name of every weight, which takes longer than a small decoding
    step.
    """
    states, modules = [], [network]
    while modules:
        module = modules.pop()
        states += [state_of(weight) for weight in module._parameters.values() if weight is not None]
        modules += [child for child in module._modules.values() if child is not None]
    return states


class PackedWeight:
    """A copy of a weight in the layout of oneDNN's products.

    With MKL, the same products of 4 to 500 frames take 1.1 to 3 times as long on AMD processors.
    PyTorch has no public function for them; ``torch.compile`` uses the same operators. In float32,
    a product with one frame is not faster, and uses the weight itself. In bfloat16, PyTorch would
    pack the weight for every product: those of 1 to 16 frames take 1.5 to 2 times as long.
    """

    def __init__(self, weight: Tensor) -> None:
        """Copy a weight (outputs, inputs) that ``can_pack`` accepts."""
        self.weight = weight
        with torch.inference_mode(False), torch.no_grad():
            values = weight.data.contiguous()
            self._packed = torch.ops.mkldnn._reorder_linear_weight(values, None)
        self._state = state_of(self.weight)

    def __reduce__(self) -> tuple[type["PackedWeight"], tuple[Tensor]]:
        """Copy and pickle the weight only, because packed tensors cannot be copied."""
        return PackedWeight, (self.weight,)

    def applies(self, inputs: Tensor) -> bool:
        """Whether inputs (..., inputs) are multiplied with the copy, which may be out of date."""
        return (
            not torch.is_grad_enabled()
            and inputs.dtype == self.weight.dtype
            and (inputs.dtype != torch.float32 or inputs.numel() > inputs.shape[-1])
            and not torch.is_autocast_enabled("cpu")
            and self._state == state_of(self.weight)
        )

    def product(self, inputs: Tensor, bias: Tensor | None) -> Tensor:
        """Return ``inputs @ weight.T + bias`` of inputs (..., inputs)."""
        if not self.applies(inputs):
            return F.linear(inputs, self.weight, bias)
        return torch.as_tensor(
            torch.ops.mkldnn._linear_pointwise(inputs, self._packed, bias, "none", [], "")
        )

    def added(self, hidden: Tensor, inputs: Tensor) -> Tensor:
        """Return ``hidden + inputs @ weight.T`` of inputs (n, inputs)."""
        if not self.applies(inputs):
            return torch.addmm(hidden, inputs, self.weight.T)
        product = torch.ops.mkldnn._linear_pointwise.binary
        return torch.as_tensor(product(inputs, hidden, self._packed, None, "add"))


class PackedLinear(nn.Linear):
    """A linear layer with a packed copy of its weight, which inference uses."""

    packed: PackedWeight

    def forward(self, input: Tensor) -> Tensor:
        """Return the product of inputs (..., inputs) with the weight, plus the bias."""
        return self.packed.product(input, self.bias)


@dataclass(frozen=True, slots=True)
class Joined:
    """One product for several linear layers.

    Attributes:
        weight: (outputs of all layers, inputs) view of their weights.
        bias: (outputs of all layers,) or None.
    """

    weight: Tensor
    bias: Tensor | None

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the outputs (..., outputs of all layers), side by side."""
        return F.linear(inputs, self.weight, self.bias)


def join_linear(linears: Sequence[nn.Module]) -> Product:
    """Return one product for linear layers with the same input, outputs side by side.

    Layers with adapters, and weights that a training strategy keeps elsewhere, are applied one by
    one.
    """
    quantised = [linear for linear in linears if isinstance(linear, Int8Linear)]
    if len(quantised) == len(linears) and side_by_side([one.weight for one in quantised]):
        return _join_int8(quantised)
    plain = [linear for linear in linears if type(linear) is nn.Linear]
    if len(plain) < len(linears) or not side_by_side([linear.weight for linear in plain]):
        return lambda inputs: torch.cat([linear(inputs) for linear in linears], dim=-1)
    weight = _view_as_one([linear.weight.detach() for linear in plain])
    return Joined(weight, _join_biases(plain))


def _join_int8(linears: Sequence[Int8Linear]) -> Product:
    """Return one product for layers whose integers are one block."""
    scales = torch.cat([linear.int8.scales for linear in linears])
    weight = Int8Weight(_view_as_one([linear.weight for linear in linears]), scales)
    return partial(weight.product, bias=_join_biases(linears))


def _view_as_one(weights: Sequence[Tensor]) -> Tensor:
    """Return weights that ``side_by_side`` has moved as one view (outputs of all, inputs)."""
    first = weights[0]
    return first.as_strided((sum(map(len, weights)), first.shape[1]), first.stride())


def _join_biases(linears: Sequence[nn.Linear]) -> Tensor | None:
    """Return the biases of all layers, with zeros for a layer without one; None if none has one."""
    biases = [linear.bias for linear in linears]
    like = next((bias for bias in biases if bias is not None), None)
    if like is None:
        return None
    return torch.cat(
        [
            like.new_zeros(linear.out_features) if bias is None else bias.detach()
            for linear, bias in zip(linears, biases, strict=True)
        ]
    )


def side_by_side(weights: Sequence[Tensor]) -> bool:
    """Move weights of equal width next to each other in memory, without a second copy.

    The parameters remain the same objects; their data become views of one block. It is stored by
    row if the weights are, otherwise by column. A weight that is already a view of a larger block
    belongs to a training strategy and is not moved.

    Returns:
        Whether the weights are one block now.
    """
    if any(type(weight.data) is not Tensor or weight.is_inference() for weight in weights):
        return False
    if _is_one_block(weights):
        return True
    by_row = all(weight.is_contiguous() for weight in weights)
    by_column = all(weight.T.is_contiguous() for weight in weights)
    if not (by_row or by_column):
        return False
    if any(weight.untyped_storage().nbytes() != weight.nbytes for weight in weights):
        return False
    with torch.inference_mode(mode=False), torch.no_grad():
        if by_row:
            block = torch.cat([weight.data for weight in weights])
        else:
            block = torch.cat([weight.data.T for weight in weights], dim=1).T
        views = block.split([len(weight) for weight in weights])
        for weight, view in zip(weights, views, strict=True):
            weight.data = view
    return True


def _is_one_block(weights: Sequence[Tensor]) -> bool:
    """Return whether each weight continues the previous one, by row or by column."""
    first = weights[0]
    rows = sum(len(weight) for weight in weights)
    if first.stride() not in ((first.shape[1], 1), (1, rows)):
        return False
    block, offset = first.untyped_storage().data_ptr(), first.storage_offset()
    for weight in weights:
        if weight.untyped_storage().data_ptr() != block or weight.stride() != first.stride():
            return False
        if weight.storage_offset() != offset:
            return False
        offset += len(weight) * weight.stride(0)
    return True
