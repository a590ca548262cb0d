"""Devices by name, and what a device computes fast."""

from collections.abc import Callable

import torch

# Features of CPUs with arithmetic in bfloat16; others convert each number, which is slower than
# float32 by one to two orders of magnitude.
BFLOAT16_FEATURES = ("amx_bf16", "avx512_bf16", "bf16", "sve_bf16")


def fast_bfloat16(device_type: str) -> bool:
    """Return whether devices of a type multiply matrices in bfloat16 as fast as in float32.

    Args:
        device_type: ``cpu`` or the type of an accelerator, such as ``cuda``.
    """
    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device_type != "cpu":
        return True
    features: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(features.get(name) for name in BFLOAT16_FEATURES)


def device_named(name: str) -> str:
    """Return the device of a name: for ``auto`` a GPU if there is one, else the CPU."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


def training_precision(device: str) -> str:
    """Return the precision of trainings: ``bf16-mixed`` where that is fast, else ``32-true``.

    Args:
        device: ``auto``, ``cpu``, or a device such as ``cuda`` or ``cuda:1``.
    """
    device_type = device_named(device).partition(":")[0]
    return "bf16-mixed" if fast_bfloat16(device_type) else "32-true"


def inference_dtype(device: str, on_gpu: str) -> str:
    """Return the dtype of weights that are not trained: float32 on a CPU.

    Args:
        device: ``auto``, ``cpu``, or a device such as ``cuda`` or ``cuda:1``.
        on_gpu: dtype on an accelerator, such as float16.
    """
    return "float32" if device_named(device) == "cpu" else on_gpu


def pending_work() -> Callable[[], None] | None:
    """Return a function that waits for the work of the accelerator in use; None on a CPU."""
    if torch.cuda.is_initialized():
        return torch.cuda.synchronize
    if torch.backends.mps.is_available():
        return torch.mps.synchronize
    return None


def allow_tf32() -> None:
    """Let GPUs multiply float32 matrices in TensorFloat-32, several times as fast as in float32."""
    torch.set_float32_matmul_precision("high")
