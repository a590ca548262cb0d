"""Runs of a network by shapes alone: the memory of a training step without weights.

Weights and activations are tensors of the meta device, which have a shape and no values. Ids,
labels, lengths and masks keep their values, because the shapes of a step depend on them.
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

META = torch.device("meta")
# Operations whose indices may be masks.
INDEXING = (
    torch.ops.aten.index.Tensor,
    torch.ops.aten._unsafe_index.Tensor,
    torch.ops.aten.index_put.default,
    torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
)
# Functions that autocast runs in bfloat16, and functions that it runs in float32.
HALF = (
    F.linear,
    F.conv1d,
    F.conv2d,
    F.scaled_dot_product_attention,
    torch.matmul,
    torch.bmm,
    torch.baddbmm,
    torch.einsum,
    Tensor.matmul,
    Tensor.__matmul__,
)
WHOLE = (
    F.layer_norm,
    F.group_norm,
    F.softmax,
    F.log_softmax,
    F.cross_entropy,
    torch.softmax,
    torch.log_softmax,
    Tensor.softmax,
    Tensor.log_softmax,
)


class TensorMemory:
    """Bytes of the meta tensors that exist.

    Attributes:
        now: bytes at present.
        peak: largest number of bytes since the last ``restart``.
    """

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self._known: set[int] = set()  # addresses of the storages

    def restart(self) -> None:
        """Begin to search for a new peak."""
        self.peak = self.now

    def add(self, tensor: Tensor) -> None:
        """Count the storage of a tensor until it is freed."""
        storage = tensor.untyped_storage()
        address, size = storage._cdata, storage.nbytes()
        if address in self._known:
            return
        self._known.add(address)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, address, size)

    def _remove(self, address: int, size: int) -> None:
        self._known.discard(address)
        self.now -= size


class ShapesOnly(TorchDispatchMode):
    """Runs operations on floating-point tensors by shape, and all others with their values.

    Attributes:
        memory: Memory of the tensors that the operations return.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memory = TensorMemory()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation; see ``TorchDispatchMode``."""
        options = dict(kwargs or {})
        if "device" in options:
            options["device"] = META
        tensors = [value for value in tree_leaves((args, options)) if isinstance(value, Tensor)]
        by_shape = any(tensor.is_meta for tensor in tensors)
        if by_shape:
            if func in INDEXING:
                args = [args[0], list(_positions(args[1])), *args[2:]]
            if not all(tensor.is_meta for tensor in tensors):
                args, options = tree_map_only(Tensor, lambda one: one.to(META), (args, options))
        result = func(*args, **options)
        if "device" in options and not by_shape and not result.is_floating_point():
            result = func(*args, **{**options, "device": "cpu"})
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.is_meta:
                self.memory.add(tensor)
        return result


def _positions(indices: Sequence[Tensor | None]) -> Iterator[Tensor | None]:
    """Replace masks, whose values determine a shape, by the positions that they select."""
    for index in indices:
        if index is not None and index.dtype == torch.bool:
            yield from index.nonzero(as_tuple=True)
        else:
            yield index


class AsOnGPU(TorchFunctionMode):
    """Runs functions by shape as a GPU does.

    Attention has no matrix of weights. Autocast, which does not know the meta device, is repeated
    here. Tensors of numbers without fractions keep their values. If one argument of a function is
    by shape, its other floating-point arguments become so.

    Args:
        half: Whether functions are autocast to bfloat16.
    """

    def __init__(self, *, half: bool) -> None:
        super().__init__()
        self.half = half

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run a function; see ``TorchFunctionMode``."""
        options = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor):
            made: Tensor = func(*args, **{**options, "device": "cpu"})
            return made.to(META) if made.is_floating_point() and made.dim() else made
        tensors = [value for value in tree_leaves((args, options)) if isinstance(value, Tensor)]
        if any(one.is_meta for one in tensors) and not all(one.is_meta for one in tensors):
            args, options = tree_map_only(Tensor, by_shape, (args, options))
        if self.half and func in HALF:
            args, options = _cast((args, options), torch.bfloat16)
        elif self.half and func in WHOLE:
            args, options = _cast((args, options), torch.float32)
        if func is F.scaled_dot_product_attention:
            return _attention(*args, **options)
        return func(*args, **options)


def by_shape(tensor: Tensor) -> Tensor:
    """Return a tensor of numbers with fractions by shape, and any other tensor as it is."""
    return tensor.to(META) if tensor.is_floating_point() else tensor


def _cast(values: Any, dtype: torch.dtype) -> Any:
    """Convert the floating-point tensors among the arguments of a function."""
    return tree_map_only(
        Tensor, lambda one: one.to(dtype) if one.is_floating_point() else one, values
    )


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Run the memory-efficient kernel by shape.

    Args:
        query: (batch, heads, queries, head size).
        key: (batch, heads of keys, keys, head size).
        value: As ``key``.
        attn_mask: Mask or bias that can be expanded to (batch, heads, queries, keys).
        dropout_p: Probability of dropout.
        is_causal: Whether queries attend to earlier keys only.
        scale: Factor of the scores.
        enable_gqa: Whether heads of queries share heads of keys.

    Returns:
        (batch, heads, queries, head size).
    """
    heads = query.shape[1]
    bias = None
    if attn_mask is not None:
        shape = (query.shape[0], heads, query.shape[2], key.shape[2])
        bias = query.new_empty(attn_mask.shape).expand(shape)
    if key.shape[1] != heads:
        key, value = (one.repeat_interleave(heads // one.shape[1], dim=1) for one in (key, value))
    attended: Tensor = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, True, dropout_p, is_causal, scale=scale
    )[0]
    return attended


def backward(loss: Tensor) -> None:
    """Run the backward pass of a scalar, in which modes are active.

    A mode is not active while it runs a function that it has intercepted, as ``Tensor.backward``
    would be, so activations would be recomputed in another way than they were computed.
    """
    ones = (torch.ones_like(loss),)
    _engine_run_backward(
        (loss,), ones, False, False, (), allow_unreachable=True, accumulate_grad=True
    )
