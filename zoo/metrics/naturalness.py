"""UTMOS: naturalness of speech as predicted by a network, from 1 (bad) to 5 (excellent).

Saeki et al. (2022), "UTMOS: UTokyo-SaruLab System for VoiceMOS Challenge 2022"; SimulU, Table 2.

The original implementation needs fairseq. This module runs its port to a single TorchScript file,
``utmos_scripted.pt`` of huggingface.co/Blinorot/UTMOS-PyTorch (MIT), which needs only PyTorch. The
weights are never downloaded, so the metric is off unless the path of the file is configured. The
port has not been run here; its documented call is ``score`` on one (n,) waveform at 16 kHz.

A TorchScript file is a program: it is only loaded if ``evaluation.utmos_trusted`` is set.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.base.errors import ZooError
from zoo.base.types import Seconds
from zoo.metrics.latency import WeightedMean

LONGEST: Seconds = 10.0  # duration of a scored piece; the network was trained on single sentences
HELP = (
    "Save utmos_scripted.pt of https://huggingface.co/Blinorot/UTMOS-PyTorch yourself and set "
    "evaluation.utmos to its path, or to null to leave out UTMOS."
)


class UTMOS(WeightedMean):
    """Mean score over pieces of speech; NaN without speech.

    Args:
        model: The loaded network.
    """

    def __init__(self, model: "UTMOSModel") -> None:
        super().__init__()
        self.model = model

    def update(self, waveforms: Sequence[Tensor]) -> None:
        """Add (n,) waveforms at 16 kHz."""
        for waveform in waveforms:
            self.add(self.model.score(waveform))


class UTMOSModel:
    """The UTMOS network.

    Args:
        path: TorchScript file, which is not read before :meth:`load`.
        trusted: Whether the code in the file may run.
    """

    def __init__(self, path: Path, *, trusted: bool = False) -> None:
        self.path = path
        self.trusted = trusted
        self._network: Any = None

    def load(self) -> None:
        """Load the network once.

        Raises:
            ZooError: The file is missing, is not trusted, or does not contain the network.
        """
        if self._network is not None:
            return
        if not self.path.is_file():
            raise ZooError(
                f"The file {self.path} of evaluation.utmos does not exist, and weights are not "
                f"downloaded. {HELP}"
            )
        if not self.trusted:
            raise ZooError(
                f"{self.path} of evaluation.utmos is a TorchScript file, which contains code; set "
                "evaluation.utmos_trusted=true if you trust its source, or evaluation.utmos=null."
            )
        try:
            network: Any = torch.jit.load(str(self.path), map_location="cpu").eval()
        except RuntimeError as error:
            raise ZooError(
                f"{self.path} of evaluation.utmos is not a TorchScript file. {HELP}"
            ) from error
        if not hasattr(network, "score"):
            raise ZooError(
                f"The network in {self.path} of evaluation.utmos has no method 'score'. {HELP}"
            )
        self._network = network

    @torch.inference_mode()
    def score(self, waveform: Tensor) -> float:
        """Score (n,) samples at 16 kHz, n > 0.

        Waveforms are scored one by one, because the padding of a batch changes scores.
        """
        assert self._network is not None, "call load before score"
        return float(self._network.score(waveform))
