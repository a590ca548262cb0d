"""UTMOS with the TorchScript file of a small network, and error messages for other files."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from zoo.base.errors import ZooError
from zoo.metrics.naturalness import UTMOS, UTMOSModel
from zoo.metrics.sums import merge


class Loudness(nn.Module):
    """An opinion that can be worked out by hand."""

    def forward(self, wave: Tensor) -> Tensor:
        return wave

    @torch.jit.export
    def score(self, wave: Tensor) -> Tensor:
        return 1.0 + wave.abs().mean().reshape(1)


class Mute(nn.Module):
    """A network that judges nothing."""

    def forward(self, wave: Tensor) -> Tensor:
        return wave


def saved(network: nn.Module, path: Path) -> Path:
    torch.jit.script(network).save(path)
    return path


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_mean_opinion_over_pieces(tmp_path: Path) -> None:
    judge = UTMOSModel(saved(Loudness(), tmp_path / "loud.pt"), trusted=True)
    judge.load()
    metric, other = UTMOS(judge), UTMOS(judge)
    metric.update([torch.ones(160), torch.full((320,), -3.0)])
    other.update([torch.full((10,), 2.0)])
    assert float(metric.compute()) == 3.0
    merge(metric, other)
    assert float(metric.compute()) == 3.0


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_files_of_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ZooError,
        match=r"of evaluation\.utmos does not exist, and weights are not downloaded\. Save",
    ):
        UTMOSModel(tmp_path / "none.pt").load()
    (tmp_path / "text.pt").write_text("words")
    with pytest.raises(
        ZooError, match=r"text\.pt of evaluation\.utmos is not a TorchScript file\. Save"
    ):
        UTMOSModel(tmp_path / "text.pt", trusted=True).load()
    with pytest.raises(ZooError, match=r"mute\.pt of evaluation\.utmos has no method 'score'"):
        UTMOSModel(saved(Mute(), tmp_path / "mute.pt"), trusted=True).load()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_file_that_is_not_trusted_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(Loudness(), tmp_path / "loud.pt")
    monkeypatch.delattr(torch.jit, "load")
    with pytest.raises(ZooError, match=r"contains code; set evaluation\.utmos_trusted=true"):
        UTMOSModel(path).load()
