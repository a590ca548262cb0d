"""Capturers in place of CUDA graphs, which run on a CPU."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from zoo.backbones.decoding.static_steps import Stepped


class Graphs:
    """Captures as CUDA graphs do: a replay computes from the same tensors into the same ones."""

    def __init__(self) -> None:
        self.captured = 0
        self.replayed = 0

    def __call__(self, compute: Callable[[], Stepped]) -> Callable[[], Stepped]:
        self.captured += 1
        outputs = compute()

        def replay() -> Stepped:
            self.replayed += 1
            hidden, weights = compute()
            outputs.hidden.copy_(hidden)
            if outputs.weights is not None and weights is not None:
                outputs.weights.copy_(weights)
            return outputs

        return replay


def stale(compute: Callable[[], Stepped]) -> Callable[[], Stepped]:
    """Capture a graph that does not depend on its inputs."""
    outputs = compute()
    return lambda: outputs


def refused(compute: Callable[[], Stepped]) -> Callable[[], Stepped]:
    raise RuntimeError("operation not permitted when stream is capturing\nmore lines")


class HostRefused(TorchFunctionMode):
    """Refuses what copies between host and GPU, which a CUDA graph cannot capture.

    Lists as indices become tensors on the host, which are copied.
    """

    REFUSED = ("tensor", "item", "tolist", "nonzero", "__bool__", "cpu", "numpy")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in self.REFUSED:
            raise RuntimeError(f"{name} copies between host and GPU")
        if name in ("__getitem__", "__setitem__"):
            indices = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(index, list | range) for index in indices):
                raise RuntimeError("a list as index copies between host and GPU")
        return func(*args, **(kwargs or {}))


def without_host(compute: Callable[[], Stepped]) -> Callable[[], Stepped]:
    """Capture a computation that a GPU can run without the host."""
    compute()  # as before a capture: what is prepared once may be copied

    def replay() -> Stepped:
        with HostRefused():
            return compute()

    return replay


def assert_equal(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for ours, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, plain, rtol=0, atol=1e-9)
