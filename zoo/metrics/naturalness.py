"""UTMOS: how natural speech sounds to a network that was trained on listeners' opinions (1 bad - 5 excellent).

Saeki et al. (2022); SimulU, Table 2. The original needs fairseq. What is taken here is its port to one TorchScript
file, ``utmos_scripted.pt`` of huggingface.co/Blinorot/UTMOS-PyTorch (MIT), which PyTorch runs by itself: no package to
install, and no other library whose next version could move the score. Packages on PyPI (utmos-pytorch, of the same
author; utmos, which needs fairseq) download weights when first asked; here nothing is downloaded, so a path is asked
for. Off by default: without the file there is no such score, and no stand-in for it. The weights have not been run
here; the call is the one they document: ``score`` of one (n,) waveform at 16 kHz, one at a time, for padding moves it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.metrics.latency import StreamMean
from zoo.types import Seconds

LONGEST: Seconds = (
    10.0  # of a piece that is judged at once: the opinions were about single sentences
)
HOW = "save utmos_scripted.pt of https://huggingface.co/Blinorot/UTMOS-PyTorch yourself and name it, or null for none"


class UTMOS(StreamMean):
    """Mean opinion over pieces of speech; NaN if there is none."""

    def __init__(self, judge: "UTMOSModel", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.judge = judge

    def update(self, waves: Sequence[Tensor]) -> None:
        """Add (n,) waveforms at 16 kHz."""
        for wave in waves:
            self.add(self.judge.opinion(wave))


class UTMOSModel:
    """The network. path: of the TorchScript file; nothing is read before :meth:`load`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._network: Any = None

    def load(self) -> None:
        """Read the network, once. Raises ZooError where the file is not there or is none."""
        if self._network is not None:
            return
        if not self.path.is_file():
            raise ZooError(
                f"There is no file {self.path} for evaluation.utmos; weights are not downloaded: {HOW}."
            )
        try:
            network: Any = torch.jit.load(str(self.path), map_location="cpu").eval()
        except RuntimeError as error:
            raise ZooError(
                f"{self.path} of evaluation.utmos is no TorchScript file; {HOW}."
            ) from error
        if not hasattr(network, "score"):
            raise ZooError(
                f"The network in {self.path} of evaluation.utmos has no method 'score'; {HOW}."
            )
        self._network = network

    @torch.inference_mode()
    def opinion(self, wave: Tensor) -> float:
        """Of (n,) samples at 16 kHz, n > 0; ``load`` comes first."""
        assert self._network is not None, "load comes first"
        return float(self._network.score(wave))
