"""Memory layout of the weights of linear layers, for inference on a CPU."""

import torch
from torch import Tensor, nn


def arrange_linear(module: nn.Module) -> None:
    """Store the float32 weights of linear layers on a CPU by column, in place.

    The products of ``torch.nn.Linear`` then read the weight in the order of memory: with MKL on AMD
    processors, that of one frame with a vocabulary takes a third of the time. Shapes, values and
    tied weights stay the same; rounding may differ in the last bits.

    Args:
        module: Module whose linear layers, at any depth, are changed.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and _stored_by_row(layer.weight):
            with torch.inference_mode(False), torch.no_grad():
                layer.weight.data = layer.weight.data.T.contiguous().T


def _stored_by_row(weight: Tensor) -> bool:
    """Whether a weight can be arranged and is not arranged yet."""
    return (
        type(weight.data) is Tensor
        and weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.dim() == 2
        and weight.is_contiguous()
        and min(weight.shape) > 1
    )
