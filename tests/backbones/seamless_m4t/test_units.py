"""Units of speech: frame positions, clusters, and a codebook that is saved and loaded."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from zoo.backbones.seamless_m4t.units import Codebook, collapse_repetitions, features, mel_filters
from zoo.base.errors import ZooError


def tone(hertz: float, frames: int) -> Tensor:
    return 0.3 * torch.sin(2 * math.pi * hertz * torch.arange(320 * frames) / 16_000)


def test_a_frame_is_centred_on_its_own_samples() -> None:
    quiet = torch.zeros(3200)
    loud = quiet.clone()
    loud[320 * 4 + 160] = 1.0
    change = (features(loud) - features(quiet)).abs().sum(1)
    assert len(change) == 10
    assert change.argmax() == 4
    for offset in (1, 2, 3):  # the same to the left and to the right
        assert change[4 - offset] == pytest.approx(float(change[4 + offset]), abs=1e-3)
    assert change[2] == change[6] == 0.0


def test_the_last_frame_may_be_short() -> None:
    assert [len(features(torch.ones(count))) for count in (1, 320, 321, 640)] == [1, 1, 2, 2]


def test_the_cepstrum_is_the_cosine_transform_of_the_log_mel_spectrum() -> None:
    wave = torch.randn(320, generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(wave, (96, 96)).double()
    window = torch.zeros(512, dtype=torch.double)
    window[16:496] = torch.hann_window(480, dtype=torch.double)
    mel = (mel_filters(512).double() @ torch.fft.rfft(padded * window).abs()).log()
    by_hand = [
        sum(float(mel[band]) * math.cos(math.pi / 80 * (band + 0.5) * k) for band in range(80))
        * math.sqrt(2 / 80)
        for k in range(16)
    ]
    by_hand[0] *= 0.4
    torch.testing.assert_close(features(wave)[0].tolist(), by_hand, atol=1e-3, rtol=1e-4)


def test_a_change_of_unit_has_its_price() -> None:
    wave = torch.cat([tone(150, 3), tone(900, 1), tone(150, 3), tone(900, 6)])
    sounds = features(torch.cat([tone(150, 9), tone(900, 9)]))
    centroids = torch.stack([sounds[4], sounds[13]])
    distances = torch.cdist(features(wave), centroids).square()

    def cost(units: Tensor, penalty: float) -> float:
        changes = int((units[1:] != units[:-1]).sum())
        return float(distances[torch.arange(13), units].sum()) + penalty * changes

    every = [torch.tensor(units) for units in itertools.product((0, 1), repeat=13)]
    counts = []
    for penalty in (0.0, float(distances.max()), 1e6):
        found = Codebook(centroids, penalty).encode(wave)
        assert cost(found, penalty) == pytest.approx(
            min(cost(units, penalty) for units in every), rel=1e-5
        )
        counts.append(len(collapse_repetitions(found)[0]))
    assert counts == [4, 2, 1]
    assert Codebook(centroids, 0.0).encode(wave).tolist() == distances.argmin(1).tolist()


def test_k_means_finds_the_sounds_there_are() -> None:
    sounds = [tone(hertz, 30) for hertz in (150, 900, 2500, 5000)]
    book = Codebook.fit(sounds * 3, units=4, steadiness=0.0)
    inner = [book.encode(sound)[2:-2] for sound in sounds]
    assert all(len(units.unique()) == 1 for units in inner)
    assert len({int(units[0]) for units in inner}) == 4
    joined = book.encode(torch.cat(sounds))
    assert joined.dtype == torch.int64
    assert joined.tolist()[10::30] == [int(units[0]) for units in inner]


def test_equal_seeds_give_equal_codebooks() -> None:
    waves = [
        torch.randn(16_000, generator=torch.Generator().manual_seed(seed)) for seed in range(3)
    ]
    one, same, other = (Codebook.fit(waves, units=8, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.centroids, same.centroids)
    assert not torch.equal(one.centroids, other.centroids)


def test_a_codebook_comes_back_from_its_folder(tmp_path: Path) -> None:
    book = Codebook(torch.randn(5, 16), penalty=0.1)
    book.save(tmp_path)
    again = Codebook.read(tmp_path)
    assert torch.equal(again.centroids, book.centroids)
    assert again.penalty == 0.1
    (tmp_path / "units.safetensors").write_bytes(b"none")
    with pytest.raises(ZooError, match=r"units.safetensors is missing or damaged"):
        Codebook.read(tmp_path)
    with pytest.raises(ZooError, match="missing or damaged"):
        Codebook.read(tmp_path / "nowhere")


def test_collapsing_and_expanding() -> None:
    units, durations = collapse_repetitions(torch.tensor([3, 3, 1, 3, 3, 3, 2]))
    assert units.tolist() == [3, 1, 3, 2]
    assert durations.tolist() == [2, 1, 3, 1]
    assert units.repeat_interleave(durations).tolist() == [3, 3, 1, 3, 3, 3, 2]


def test_too_little_speech_is_refused() -> None:
    with pytest.raises(ZooError, match="100 units need at least as many frames of speech, not 50"):
        Codebook.fit([torch.zeros(16_000)])
