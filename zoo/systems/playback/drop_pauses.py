"""Late speech loses its pauses: silence inside it is cut to a shortest pause."""

from itertools import groupby

import torch
from torch import Tensor

from zoo.base.errors import check_numbers
from zoo.base.types import SAMPLE_RATE, Samples, Seconds
from zoo.systems.playback.base import Playback

HOP: Samples = SAMPLE_RATE // 100  # level is measured per 10 ms
SILENCE = 1e-10  # mean square below that of any sound


class DropPauses(Playback):
    """Cuts as much of the pauses, from the first on, as makes up for the delay.

    Args:
        pause_seconds: What remains of a pause.
        level: Loudest sound of a pause in decibels relative to the loudest 10 ms of the piece.
        behind_seconds: How far playback may be behind before speech is shortened.

    Raises:
        ZooError: ``level`` is not negative, or a duration is.
    """

    def __init__(
        self,
        *,
        pause_seconds: Seconds = 0.1,
        level: float = -40.0,
        behind_seconds: Seconds = 1.0,
    ) -> None:
        super().__init__(behind_seconds=behind_seconds)
        check_numbers("DropPauses", least=0, pause_seconds=pause_seconds)
        check_numbers("DropPauses", least=-100, most=-1, level=level)
        self.pause_seconds = pause_seconds
        self.level = level

    def shorten(self, speech: Tensor, samples: Samples) -> Tensor:
        """See ``Playback``."""
        shortest = round(self.pause_seconds * SAMPLE_RATE)
        parts: list[Tensor] = []
        end = 0
        for first, last in pauses(speech, self.level):
            excess = min(last - first - shortest, samples)
            if excess <= 0:
                continue
            middle = first + shortest // 2  # both sides keep their fading ends
            parts.append(speech[end:middle])
            end = middle + excess
            samples -= excess
        return torch.cat([*parts, speech[end:]])


def pauses(speech: Tensor, level: float) -> list[tuple[Samples, Samples]]:
    """Return the first sample of each pause and the one after its last.

    Args:
        speech: (n,) waveform.
        level: Loudest sound of a pause in decibels relative to the loudest 10 ms.
    """
    hops = len(speech) // HOP
    if not hops:
        return []
    energy = speech[: hops * HOP].double().reshape(hops, HOP).square().mean(dim=1)
    is_quiet = energy <= max(float(energy.max()) * 10 ** (level / 10), SILENCE)
    spans: list[tuple[Samples, Samples]] = []
    position = 0
    for quiet, group in groupby(is_quiet.tolist()):
        start, position = position, position + len(list(group))
        if quiet:
            spans.append((start * HOP, position * HOP))
    return spans
