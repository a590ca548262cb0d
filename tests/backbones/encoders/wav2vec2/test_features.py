"""Convolution features of kept audio: reused features equal recomputed features."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.encoders.audio.feature_cache import FeatureCache
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig, StreamingEncoder
from zoo.backbones.encoders.wav2vec2.features import KeptWave, kept_features

FRAME = 320


@pytest.fixture(params=[0, 80, 399])
def encoder(request: pytest.FixtureRequest) -> StreamingEncoder:
    torch.manual_seed(0)
    shape = {"conv_channels": (6,) * 7, "hidden": 16, "layers": 1, "heads": 2, "ff": 8}
    return StreamingEncoder(EncoderConfig(**shape, left_pad=request.param)).double().eval()


def anew(encoder: StreamingEncoder, wave: Tensor) -> Tensor:
    return encoder.features(F.pad(wave, (encoder.config.left_pad, 0))[None])[0]


def opened(encoder: StreamingEncoder) -> FeatureCache:
    return FeatureCache(torch.zeros(0, encoder.config.hidden, dtype=torch.float64))


@torch.inference_mode()
def test_caches_of_streams_that_grow_and_are_cut_equal_a_new_encoding(
    encoder: StreamingEncoder,
) -> None:
    audio = torch.randn(2, 40 * FRAME, dtype=torch.float64)
    caches = [opened(encoder), opened(encoder)]
    looks = [
        ((0, 4, 3), (0, 7, 7)),
        ((0, 9, 9), (3, 12, 11)),
        ((5, 15, 13), (3, 20, 20)),
        ((20, 26, 25), (4, 24, 23)),
    ]
    for look in looks:
        kept_waves = []
        for row, (first, last, whole) in enumerate(look):
            wave, real = (
                audio[row, first * FRAME : last * FRAME].clone(),
                whole * FRAME - 17 - first * FRAME,
            )
            wave[real:] = 0
            kept_waves.append(KeptWave(wave, real, first * FRAME))
        for features, one in zip(
            kept_features(encoder, caches, kept_waves), kept_waves, strict=True
        ):
            torch.testing.assert_close(features, anew(encoder, one.wave), rtol=0, atol=1e-12)


@torch.inference_mode()
def test_only_what_is_new_goes_through_the_convolutions(
    encoder: StreamingEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    convolve = encoder.features
    monkeypatch.setattr(
        encoder, "features", lambda samples: seen.append(samples.numel()) or convolve(samples)
    )
    wave, cache = torch.randn(100 * FRAME, dtype=torch.float64), opened(encoder)
    for frames in (50, 54, 58):
        kept_features(encoder, [cache], [KeptWave(wave[: frames * FRAME], frames * FRAME, 0)])
    assert seen[0] >= 49 * FRAME
    assert max(seen[1:]) <= 7 * FRAME


@torch.inference_mode()
def test_a_shorter_request_keeps_the_cache_and_too_little_audio_has_no_frame(
    encoder: StreamingEncoder,
) -> None:
    wave, cache = torch.randn(10 * FRAME, dtype=torch.float64), opened(encoder)
    kept_features(encoder, [cache], [KeptWave(wave, wave.numel(), 0)])
    kept = len(cache.frames)
    [shorter] = kept_features(encoder, [cache], [KeptWave(wave[: 4 * FRAME], 4 * FRAME, 0)])
    torch.testing.assert_close(shorter, anew(encoder, wave[: 4 * FRAME]), rtol=0, atol=1e-12)
    assert len(cache.frames) == kept
    [nothing] = kept_features(encoder, [opened(encoder)], [KeptWave(wave[:0], 0, 0)])
    assert nothing.shape == (0, encoder.config.hidden)
