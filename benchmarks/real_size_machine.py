"""What a machine gives: a clock that waits for it, its bandwidth, its memory. Knows no model."""

import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from zoo.types import SAMPLE_RATE, Seconds

MINUTE: Seconds = 60.0
LEVEL = 0.1  # of the noise
GIGA = 1e9


def clock_of(device: torch.device) -> Callable[[], Seconds]:
    """A clock that waits for the device first."""

    def now() -> Seconds:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    return now


def noise(minutes: float, *, chunk_samples: int, seed: int) -> Iterator[Tensor]:
    """Whole chunks of noise, made as they are asked for."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(int(minutes * MINUTE * SAMPLE_RATE) // chunk_samples):
        yield LEVEL * torch.randn(chunk_samples, generator=generator)


def copy_bandwidth(device: torch.device, clock: Callable[[], Seconds]) -> float:
    """Bytes per second, read and written, of the best of some large copies."""
    megabytes = 1024 if device.type == "cuda" else 256
    source = torch.zeros(megabytes * 2**20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(10):
        begun = clock()
        target.copy_(source)
        best = max(best, 2 * source.numel() / (clock() - begun))
    return best


def weight_bytes(module: nn.Module) -> int:
    """Bytes of all parameters, shared ones once."""
    return sum(weight.numel() * weight.element_size() for weight in module.parameters())


def forget_peak(device: torch.device) -> None:
    """From here on ``peak_bytes`` counts."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int:
    """The most that was in use: of the GPU by tensors, of the CPU by the process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def growth(values: Sequence[float]) -> float:
    """The median of the last fifth over that of the second fifth; the first fills the windows."""
    fifth = len(values) // 5
    return statistics.median(values[-fifth:]) / statistics.median(values[fifth : 2 * fifth])


def named(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU, {torch.get_num_threads()} threads"
