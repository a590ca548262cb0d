import pytest
import torch
from transformers import Phi4MultimodalFeatureExtractor

from zoo.backbones.phi4_multimodal.features import LogMel

WAVE = 0.1 * torch.randn(40_000, generator=torch.Generator().manual_seed(0))
ROUNDING = 5e-5  # of float32 in a log-mel value, with margin


def test_equals_the_published_extractor() -> None:
    published = Phi4MultimodalFeatureExtractor()(
        WAVE.numpy(), sampling_rate=16_000, return_tensors="pt"
    )
    spectrogram = LogMel()
    ours = spectrogram.compute(spectrogram.open(), WAVE, 0)
    assert ours.shape == (248, 80)
    torch.testing.assert_close(ours, published["audio_input_features"][0], rtol=0, atol=1e-4)


def test_audio_chunk_by_chunk_and_after_a_cut_equals_audio_at_once() -> None:
    spectrogram = LogMel()
    cache = spectrogram.open()
    for end in (10_240, 20_480, 20_500, 40_000):
        torch.testing.assert_close(
            spectrogram.compute(cache, WAVE[:end], 0),
            spectrogram.compute(spectrogram.open(), WAVE[:end], 0),
            rtol=0,
            atol=ROUNDING,
        )
    cut = spectrogram.compute(cache, WAVE[2560:], 2560)
    torch.testing.assert_close(
        cut, spectrogram.compute(spectrogram.open(), WAVE[2560:], 0), rtol=0, atol=ROUNDING
    )


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_chunks_of_640_ms_make_8_tokens_each(chunks: int) -> None:
    spectrogram = LogMel()
    frames = spectrogram.compute(spectrogram.open(), WAVE[: 10_240 * chunks], 0)
    assert frames.shape == (64 * chunks - 2, 80)
    assert -(-frames.shape[0] // 8) == 8 * chunks


def test_silence_has_a_floor_and_less_than_a_window_is_nothing() -> None:
    spectrogram = LogMel()
    assert bool((spectrogram.compute(spectrogram.open(), torch.zeros(400), 0) == 0).all())
    assert len(spectrogram.compute(spectrogram.open(), torch.zeros(399), 0)) == 0
