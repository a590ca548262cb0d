"""CPU cores, and checks of the seed and of the number of threads, without importing torch."""

import os

from zoo.base.errors import ZooError, unknown_choice

LARGEST_SEED = 2**32 - 1  # largest seed that NumPy accepts


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_machine(*, threads: object, device: object, seed: object = 0) -> None:
    """Check the seed, the number of CPU threads and the kind of device of a configuration.

    Args:
        threads: Number of threads; None leaves the number to torch.
        device: Name of a device, which is not looked for.
        seed: Seed of all random numbers.

    Raises:
        ZooError: The seed or the number of threads is wrong, or the device is no name.
    """
    if not isinstance(device, str):
        raise unknown_choice("device", device, ("auto", "cpu", "cuda"))
    if _whole("seed", seed, least=0) > LARGEST_SEED:
        raise ZooError(f"seed must be at most {LARGEST_SEED}, not {seed}.")
    cores = os.cpu_count() or 1
    # torch crashes if the system refuses to start that many threads
    if threads is not None and _whole("threads", threads, least=1) > cores:
        raise ZooError(
            f"threads must be at most {cores}, the CPU cores of this machine, not {threads}; null "
            "leaves the number to torch."
        )


def _whole(key: str, value: object, *, least: int) -> int:
    """Return a whole number. Raises ZooError for another value or one below ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ZooError(f"{key} must be a whole number of at least {least}, not {value!r}.")
    return value
