"""Log-mel features of Qwen2.5-Omni equal the published extractor's for any chunks."""

import pytest
import torch
from torch import Tensor

from tests.fixtures import thinker_audio
from tests.fixtures.thinker_audio import (
    check_features_by_chunks,
    published_extractor,
    rising_noise,
)
from zoo.backbones.qwen2_5_omni.features import TokenSpectrogram, encoder_inputs
from zoo.base.errors import ZooError

SIZES = (1, 720, 51_317)


def features(spectrogram: TokenSpectrogram, wave: Tensor) -> Tensor:
    return thinker_audio.features(spectrogram, encoder_inputs, wave)


@pytest.mark.parametrize("samples", SIZES)
def test_features_are_the_published_extractors(samples: int) -> None:
    wave = rising_noise(samples)
    theirs = published_extractor()(
        wave.numpy(), sampling_rate=16_000, return_tensors="pt", return_attention_mask=True
    )
    found = features(TokenSpectrogram(128), wave)
    assert len(found) == -(-samples // 640) * 4
    unmasked = int(theirs["attention_mask"].sum())
    assert len(found) - 4 < unmasked <= len(found)  # filled up to a whole token, no more
    torch.testing.assert_close(
        found, theirs["input_features"][0].T[: len(found)], rtol=0, atol=1e-4
    )


def test_features_by_chunks_with_cuts_equal_those_of_the_kept_audio() -> None:
    check_features_by_chunks(TokenSpectrogram(128), encoder_inputs)


def test_a_louder_sound_lifts_what_was_quiet_before_it() -> None:
    spectrogram, wave = TokenSpectrogram(128), rising_noise(12_800)
    wave[:6_400] *= 1e-6
    before, after = features(spectrogram, wave[:6_400]), features(spectrogram, wave)
    assert float((after[:36] - before[:36]).min()) > 0.25


def test_silence_is_a_number() -> None:
    assert torch.equal(
        features(TokenSpectrogram(128), torch.zeros(1_280)), torch.full((8, 128), -1.5)
    )


def test_more_than_the_span_is_refused() -> None:
    with pytest.raises(ZooError, match="at most 300 s at once"):
        features(TokenSpectrogram(4), torch.zeros(300 * 16_000 + 640))
