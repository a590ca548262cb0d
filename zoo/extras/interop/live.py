"""A stream that another tool drives: it receives audio of any length and steps the system."""

import re
from collections.abc import Sequence

from torch import Tensor

from zoo.apps.loading import load
from zoo.base.errors import ZooError
from zoo.base.machine.devices import device_named
from zoo.base.types import SAMPLE_RATE, Action
from zoo.streaming.buffer import ChunkBuffer
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem
from zoo.systems.steps import concatenate

TALK = "live"  # name of the talk of a stream that another tool drives


def loaded_system(
    source: str, overrides: Sequence[str] = (), *, device: str = "auto"
) -> StreamingSystem:
    """Create a system and load its weights.

    Args:
        source: Name of a system, or folder or name of a checkpoint; see ``zoo.load``.
        overrides: Overrides as on the command line of ``evaluate.py``, such as ``policy.frames=4``
            or ``trusted_packages=[my_zoo]``.
        device: Device of the network, or ``auto``.

    Raises:
        ZooError: There is no such system, or an override is wrong.
    """
    pairs = [override.partition("=") for override in overrides]
    for key, equals, _ in pairs:
        if not equals:
            raise ZooError(f"{key!r} is not an override; write key=value.")
    values = {key: value for key, _, value in pairs}
    trusted = re.findall(r"\w+", values.pop("trusted_packages", ""))
    system = load(source, trusted_packages=trusted, **values)
    system.configure_model()
    system.eval()
    return system.to(device_named(device))


def check_rate(rate: int) -> None:
    """Raise ZooError unless audio has the sample rate of the zoo."""
    if rate != SAMPLE_RATE:
        raise ZooError(f"The zoo's systems receive audio at {SAMPLE_RATE} Hz, not at {rate} Hz.")


def check_language(kind: str, given: str | None, own: str) -> None:
    """Raise ZooError if a tool asks for another language than that of the system.

    Args:
        kind: ``source`` or ``target``.
        given: Code of the language that the tool asks for; None: any.
        own: Code of the system's language.
    """
    if given is not None and given != own:
        raise ZooError(
            f"The {kind} language of the system is {own!r}, not {given!r}; set the override "
            f"{kind}_language={given} if the system supports it."
        )


class LiveStream:
    """One stream through a system.

    The system receives chunks of its own size, as in an evaluation. Audio that does not fill a
    chunk waits for more audio or for the end of the stream.

    Args:
        system: System with loaded weights.

    Attributes:
        session: State of the stream in the system.
    """

    def __init__(self, system: StreamingSystem) -> None:
        self._system = system
        self._buffer = ChunkBuffer(system.chunk_samples)
        self.session: Session = system.open(TALK)

    def receive(self, samples: Tensor, *, final: bool = False) -> Action:
        """Receive audio and return the output of the steps that it completes.

        Args:
            samples: (n,) float32 at 16 kHz.
            final: The stream ends with these samples.
        """
        chunks = self._buffer.receive(samples, final=final)
        return concatenate([self._system.step([self.session], [chunk])[0] for chunk in chunks])
