"""Long speech in pieces, cut where it is quietest. Knows no network and no word."""

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.types import SAMPLE_RATE, Samples

HOP: Samples = SAMPLE_RATE // 100  # what energy is measured in
PAUSE = 30  # hops: the longest quiet stretch that is told apart from a longer one


def pieces(wave: Tensor, longest: Samples) -> list[Tensor]:
    """(n,) as consecutive pieces of at most ``longest`` samples, which together are the wave.

    Each ends in the quietest third of a second of its second half, and in the quietest moment there: in a pause where
    there is one. Only speech that goes on for half of ``longest`` without any is cut in a word.
    """
    found: list[Tensor] = []
    while len(wave) > longest:
        end = quietest(wave, longest // 2, longest)
        found.append(wave[:end])
        wave = wave[end:]
    return [*found, wave]


def quietest(wave: Tensor, first: Samples, last: Samples) -> Samples:
    """The middle of the quietest 10 ms of (n,) between the samples ``first`` and ``last``, n >= last > first >= 1."""
    hops = (
        wave[first:last].double().square().unfold(0, HOP, HOP).mean(dim=1)
        if last - first >= HOP
        else None
    )
    if hops is None:
        return last
    span = min(PAUSE, len(hops))
    begin = int(hops.unfold(0, span, 1).mean(dim=1).argmin())
    near = hops[begin : begin + span]
    level = (
        F.pad(near, (1, 1), value=float(near.max())).unfold(0, 3, 1).mean(dim=1)
    )  # not beside something loud
    quiet = torch.nonzero(level == level.min()).flatten()
    return first + (begin + int(quiet[len(quiet) // 2])) * HOP + HOP // 2
