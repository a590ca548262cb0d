"""Spectrograms piece by piece equal those of the whole audio and of Transformers."""

import pytest
import torch
from torch import Tensor
from transformers import (
    ParakeetFeatureExtractor,
    SeamlessM4TFeatureExtractor,
    Speech2TextFeatureExtractor,
    WhisperFeatureExtractor,
)

from tests.fixtures.streams import white_noise
from zoo.backbones.encoders.audio.spectrogram import (
    HOP,
    CentredSpectrogram,
    Filterbank,
    PaddedSpectrogram,
    Spectrogram,
    seamless_features,
    speech_to_text_features,
    whisper_features,
)
from zoo.extras.canary import normalised

SPAN = 30 * 16_000
ROUNDING = 5e-5  # of float32 in a log-mel value, with margin
SIZES = (400, 720, 999, 16_000, 51_317)


def waveform(samples: int, seed: int = 0) -> Tensor:
    """Noise that grows louder, as quiet as a thousandth at first."""
    noise = white_noise(samples, seed)
    return 0.1 * noise * torch.linspace(0.001, 1, samples)


def whole(spectrogram: Spectrogram, wave: Tensor) -> Tensor:
    return spectrogram.compute(spectrogram.open(), wave, 0)


@pytest.mark.parametrize("samples", SIZES[1:])
def test_a_filterbank_is_that_of_the_feature_extractors(samples: int) -> None:
    wave = waveform(samples)
    frames = whole(Filterbank(80), wave)
    seamless = SeamlessM4TFeatureExtractor()(
        wave.numpy(), sampling_rate=16_000, return_tensors="pt"
    )
    # an odd number of frames ends in half a pair, which is masked
    real = int(seamless["attention_mask"].sum())
    torch.testing.assert_close(
        seamless_features(frames, 2), seamless["input_features"][0][:real], rtol=0, atol=1e-4
    )
    plain = Speech2TextFeatureExtractor()(wave.numpy(), sampling_rate=16_000, return_tensors="pt")
    normal = speech_to_text_features(frames, mean=True, deviation=True)
    torch.testing.assert_close(normal, plain["input_features"][0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("bins", [80, 128])
@pytest.mark.parametrize("samples", SIZES)
def test_a_padded_spectrogram_is_that_of_the_feature_extractor(samples: int, bins: int) -> None:
    wave = waveform(samples)
    extractor = ParakeetFeatureExtractor(feature_size=bins)
    batch = extractor(wave.numpy(), sampling_rate=16_000, return_tensors="pt")
    expected = batch["input_features"][0][batch["attention_mask"][0]]
    found = normalised(whole(PaddedSpectrogram(bins), wave))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("mean", "deviation"), [(True, False), (False, True), (False, False)])
def test_normalisation_is_as_configured(mean: bool, deviation: bool) -> None:
    wave = waveform(16_000)
    extractor = Speech2TextFeatureExtractor(normalize_means=mean, normalize_vars=deviation)
    expected = extractor(wave.numpy(), sampling_rate=16_000, return_tensors="pt")["input_features"][
        0
    ]
    found = speech_to_text_features(whole(Filterbank(80), wave), mean=mean, deviation=deviation)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("samples", [1, *SIZES, SPAN - 100, SPAN])
@pytest.mark.parametrize("bins", [80, 128])
def test_a_centred_spectrogram_is_that_of_whispers_feature_extractor(
    samples: int, bins: int
) -> None:
    wave = waveform(samples)
    extractor = WhisperFeatureExtractor(feature_size=bins)
    expected = extractor(wave.numpy(), sampling_rate=16_000, return_tensors="pt")["input_features"][
        0
    ].T
    found = whisper_features(whole(CentredSpectrogram(bins, SPAN), wave), 3000)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "spectrogram", [Filterbank(80), CentredSpectrogram(80, SPAN), PaddedSpectrogram(80)]
)
def test_features_by_pieces_with_cuts_equal_those_of_the_kept_audio(
    spectrogram: Spectrogram,
) -> None:
    stream, choose = waveform(SPAN), torch.Generator().manual_seed(1)
    cache, begin, end = spectrogram.open(), 0, 0
    while end < SPAN:
        end = min(end + int(torch.randint(1, 16_000, (1,), generator=choose)), SPAN)
        shorter = end - int(torch.randint(0, (end - begin) // 2 + 1, (1,), generator=choose))
        for look in (
            stream[begin:end],
            stream[begin:shorter],
            stream[begin:end],
        ):  # as one that looks not so far
            torch.testing.assert_close(
                spectrogram.compute(cache, look, begin),
                whole(spectrogram, look),
                rtol=0,
                atol=ROUNDING,
            )
        if int(torch.randint(0, 4, (1,), generator=choose)) == 0:
            begin += 640 * int(torch.randint(0, (end - begin) // 640 + 1, (1,), generator=choose))


@pytest.mark.parametrize(
    "spectrogram", [Filterbank(80), CentredSpectrogram(80, SPAN), PaddedSpectrogram(80)]
)
def test_only_new_audio_is_analysed(
    spectrogram: Spectrogram, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, wave, analysed = spectrogram.open(), waveform(32_000), []
    spectrogram.compute(cache, wave[:16_000], 0)
    mel = spectrogram._mel
    monkeypatch.setattr(
        spectrogram,
        "_mel",
        lambda windows, size: analysed.append(len(windows)) or mel(windows, size),
    )
    spectrogram.compute(cache, wave[:24_000], 0)
    # half a second, and the ends of what is kept for centred windows
    assert 50 <= sum(analysed) <= 50 + 6
    analysed.clear()
    spectrogram.compute(cache, wave[6_400:24_000], 6_400)
    assert sum(analysed) <= 6


@pytest.mark.parametrize("moved", [HOP // 2, -HOP, 64_000])
def test_a_cut_off_the_grid_begins_anew(moved: int) -> None:
    spectrogram, wave = Filterbank(80), waveform(96_000)
    cache = spectrogram.open()
    spectrogram.compute(cache, wave[HOP:48_000], HOP)
    kept = wave[HOP + moved :]
    torch.testing.assert_close(
        spectrogram.compute(cache, kept, HOP + moved),
        whole(spectrogram, kept),
        rtol=0,
        atol=ROUNDING,
    )


def test_silence_is_a_number() -> None:
    silence = torch.zeros(16_000)
    frames = whole(Filterbank(80), silence)
    for normal, shape in (
        (speech_to_text_features(frames, mean=True, deviation=True), (98, 80)),
        (seamless_features(frames, 2), (49, 160)),
    ):
        torch.testing.assert_close(normal, torch.zeros(shape), rtol=0, atol=1e-6)
    assert torch.equal(
        whisper_features(whole(CentredSpectrogram(80, SPAN), silence), 3000),
        torch.full((3000, 80), -1.5),
    )
