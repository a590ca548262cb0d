"""Log-mel features of Qwen2.5-Omni equal the published extractor's for any chunks."""

import pytest
import torch
from torch import Tensor
from transformers import WhisperFeatureExtractor

from tests.fixtures.streams import white_noise
from zoo.backbones.qwen2_5_omni.features import TokenSpectrogram, encoder_inputs
from zoo.errors import ZooError

SIZES = (1, 720, 51_317)
ROUNDING = 5e-5  # of float32 in a log-mel value, with margin


@pytest.fixture(scope="module")
def published() -> WhisperFeatureExtractor:
    """With the settings of Qwen2.5-Omni's preprocessor_config.json."""
    return WhisperFeatureExtractor(feature_size=128, chunk_length=300, return_attention_mask=True)


def waveform(samples: int, seed: int = 0) -> Tensor:
    """Noise that grows louder, so that the maximum changes with every chunk."""
    noise = white_noise(samples, seed)
    return 0.1 * noise * torch.linspace(0.001, 1, samples)


def features(spectrogram: TokenSpectrogram, wave: Tensor) -> Tensor:
    return encoder_inputs(spectrogram.compute(spectrogram.open(), wave, 0))


@pytest.mark.parametrize("samples", SIZES)
def test_features_are_the_published_extractors(
    published: WhisperFeatureExtractor, samples: int
) -> None:
    wave = waveform(samples)
    theirs = published(
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
    stream, spectrogram = waveform(80_000), TokenSpectrogram(128)
    cache, begin = spectrogram.open(), 0
    for end in range(5_120, 80_001, 5_120):
        kept = stream[begin:end]
        torch.testing.assert_close(
            encoder_inputs(spectrogram.compute(cache, kept, begin)),
            features(spectrogram, kept),
            rtol=0,
            atol=ROUNDING,
        )
        if end in (20_480, 51_200):
            begin = end - 1_920


def test_a_louder_sound_lifts_what_was_quiet_before_it() -> None:
    spectrogram, wave = TokenSpectrogram(128), waveform(12_800)
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
