"""Splits long speech into pieces at pauses."""

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.base.types import SAMPLE_RATE, Samples

HOP: Samples = SAMPLE_RATE // 100  # energy is measured per 10 ms
LONGEST_PAUSE = 30  # number of hops (0.3 s) whose mean energy is compared to find a pause


def split_at_pauses(wave: Tensor, longest: Samples) -> list[Tensor]:
    """Split a waveform into consecutive pieces.

    Each piece ends in the quietest 10 ms within the quietest 0.3 s of the second half of
    ``longest``, that is, in a pause if there is one. Only speech that continues for half of
    ``longest`` without a pause is split inside a word.

    Args:
        wave: (n,) waveform at 16 kHz.
        longest: maximum samples of a piece.

    Returns:
        (n_i,) pieces whose concatenation is ``wave``; at least one.
    """
    pieces: list[Tensor] = []
    while len(wave) > longest:
        end = quietest_position(wave, longest // 2, longest)
        pieces.append(wave[:end])
        wave = wave[end:]
    return [*pieces, wave]


def quietest_position(wave: Tensor, first: Samples, last: Samples) -> Samples:
    """Find the middle of the quietest 10 ms in a range of a waveform.

    Args:
        wave: (n,) waveform at 16 kHz.
        first: start of the range, at least 1.
        last: end of the range, greater than ``first`` and at most n.

    Returns:
        A position between ``first`` and ``last``; ``last`` if the range is shorter than 10 ms.
    """
    if last - first < HOP:
        return last
    energy = wave[first:last].double().square().unfold(0, HOP, HOP).mean(dim=1)

    # The quietest long span, so that the closure of a plosive does not win over a pause.
    span = min(LONGEST_PAUSE, len(energy))
    begin = int(energy.unfold(0, span, 1).mean(dim=1).argmin())
    pause = energy[begin : begin + span]

    # The quietest hop in it, smoothed over its neighbours to keep clear of loud hops.
    padded = F.pad(pause, (1, 1), value=float(pause.max()))
    level = padded.unfold(0, 3, 1).mean(dim=1)
    quietest = torch.nonzero(level == level.min()).flatten()
    return first + (begin + int(quietest[len(quietest) // 2])) * HOP + HOP // 2
