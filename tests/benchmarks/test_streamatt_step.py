"""The zoo and simulstream emit the same words; each fixed bug of simulstream changes them."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from zoo.backbones.encoders.audio.spectrogram import Filterbank
from zoo.base.errors import ZooError

SMALL = ["--small", "--hidden", "32", "--vocabulary", "400", "--chunks", "3"]


@pytest.fixture(scope="module")
def rival(script: ModuleType) -> ModuleType:
    """simulstream's side."""
    pytest.importorskip("simulstream", reason="simulstream is not installed (the extra interop)")
    import streamatt_simulstream

    return streamatt_simulstream


@pytest.fixture(scope="module")
def noise() -> Tensor:
    """Three seconds."""
    return 0.1 * torch.randn(48_000, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def folder(script: ModuleType, noise: Tensor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model."""
    place = tmp_path_factory.mktemp("seamless")
    script.save_random_seamless(place, script.arguments(SMALL), noise)
    return place


def processor(rival: ModuleType, **options: object) -> SimpleNamespace:
    return rival.Simulstream(words=5, num_beams=2, **options)


@pytest.mark.usefixtures("rival")
def test_both_emit_the_same(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["streamatt_step.py", *SMALL])
    script.main()
    facts = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    for search in ("greedy", "beam 3"):
        assert facts[search]["agreement"] == 1
        assert facts[search]["words"] > 0
        assert facts[search]["simulstream_ms"] > 0


def test_their_release_cuts_an_eighth(rival: ModuleType) -> None:
    left = []
    for bugs in ((), ("cut",)):
        stream = processor(rival, bugs=bugs)
        stream.text_history, stream.audio_history = ["▁kept"], np.zeros((80, 160))
        attention = torch.zeros(2, 10)
        attention[1, 3] = 1
        stream._update_speech_history(1, attention)
        left.append(len(stream.audio_history))
    assert left == [80 - 3 * 8, 80 - 3]


def test_their_release_takes_another_beam(rival: ModuleType) -> None:
    # 10 x step + beam
    steps = [(torch.arange(2.0).view(2, 1, 1, 1) + 10 * step,) for step in range(3)]
    answer = SimpleNamespace(cross_attentions=steps, beam_indices=torch.tensor([[0, 1, 0]]))
    rows = [
        processor(rival, bugs=bugs, cross_attention_layer=0)
        ._extract_new_hypo_attention_scores(2, answer)
        .flatten()
        .tolist()
        for bugs in ((), ("rows",))
    ]
    assert rows == [[11, 20], [10, 21]]


def test_their_release_normalises_odd_and_even_features_apart(rival: ModuleType) -> None:
    rows = np.random.default_rng(1).normal(size=(6, 160))
    whole, apart = (
        processor(rival, bugs=bugs).mean_variance_normalization(rows) for bugs in ((), ("bins",))
    )
    assert torch.allclose(
        whole.reshape(12, 80).mean(dim=0), torch.zeros(80, dtype=whole.dtype), atol=1e-9
    )
    assert torch.allclose(apart.mean(dim=0), torch.zeros(160, dtype=apart.dtype), atol=1e-9)
    assert not torch.allclose(whole, apart, atol=0.1)


@pytest.mark.parametrize(("shorter", "same"), [(80, True), (0, False)])
def test_their_stream_loses_80_samples_unless_its_first_chunk_is_shorter(
    rival: ModuleType, folder: Path, noise: Tensor, shorter: int, same: bool
) -> None:
    rival.Simulstream.load_weights(folder)
    stream = processor(rival)
    for begin, end in ((0, 16_000 - shorter), (16_000 - shorter, 48_000 - shorter)):
        stream._preprocess(noise[begin:end].numpy())
    spectrogram = Filterbank(80)
    ours = spectrogram.compute(spectrogram.open(), noise, 0).reshape(-1, 160)
    theirs = torch.from_numpy(stream.audio_history).to(ours)
    assert theirs.shape == ours.shape
    assert torch.allclose(theirs, ours, atol=1e-3) == same


def test_agreement_counts_words_at_their_chunk(script: ModuleType) -> None:
    first = script.Run(words=[["a", "b"], ["c", "d"]])
    assert script.agreement(first, script.Run(words=[["a", "b"], ["c", "d"]])) == 1
    assert script.agreement(first, script.Run(words=[["a"], ["b", "c", "d"]])) == 0.75
    assert script.agreement(first, script.Run(words=[["x", "y"], ["z", "z"]])) == 0


def test_without_simulstream_the_error_names_the_extra(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["streamatt_step.py"])
    monkeypatch.setitem(sys.modules, "streamatt_simulstream", None)
    with pytest.raises(ZooError, match=r"simulstream.*interop"):
        script.main()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--chunk-ms", "30"], "--chunk-ms: must be a multiple of 20, not 30"),
        (["--decoder-layers", "3"], "--decoder-layers: must be more than 3"),
        (["--words", "0"], "--words: must be a whole number of at least 1, not 0"),
    ],
)
def test_impossible_sizes_are_refused(
    script: ModuleType, given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        script.arguments(given)
    assert left.value.code == 2
    assert message in capsys.readouterr().err
