"""Log-mel features of Qwen3-Omni equal the published extractor's; embeddings have their times."""

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import (
    _get_feat_extract_output_lengths,
)

from tests.fixtures import thinker_audio
from tests.fixtures.thinker_audio import (
    check_features_by_chunks,
    published_extractor,
    rising_noise,
)
from zoo.backbones.architectures.thinker.chunks import (
    FRAME,
    encoder_inputs,
    frame_embeddings,
    num_embeddings,
)
from zoo.backbones.encoders.audio.spectrogram import HOP, CentredSpectrogram
from zoo.base.types import SAMPLE_RATE

SIZES = (201, 720, 16_000, 51_317)


def features(spectrogram: CentredSpectrogram, wave: Tensor) -> Tensor:
    return thinker_audio.features(spectrogram, encoder_inputs, wave)


@pytest.mark.parametrize("samples", SIZES)
def test_features_are_the_published_extractors(samples: int) -> None:
    """The published processor pads to the longest recording of a batch, and here there is one."""
    wave = rising_noise(samples)
    theirs = published_extractor()(
        wave.numpy(),
        sampling_rate=16_000,
        return_tensors="pt",
        padding=True,
        truncation=False,
        return_attention_mask=True,
    )
    found = features(CentredSpectrogram(128, span=None), wave)
    assert len(found) == int(theirs["attention_mask"].sum()) == samples // HOP
    torch.testing.assert_close(found, theirs["input_features"][0].T, rtol=0, atol=1e-4)


def test_features_by_chunks_with_cuts_equal_those_of_the_kept_audio() -> None:
    check_features_by_chunks(CentredSpectrogram(128, span=None), encoder_inputs)


@pytest.mark.parametrize("samples", [0, 1, 200])
def test_audio_that_is_too_short_to_be_mirrored_has_no_features(samples: int) -> None:
    assert features(CentredSpectrogram(128, span=None), rising_noise(samples)).shape == (0, 128)


def test_embeddings_are_counted_as_the_processor_does() -> None:
    for frames in range(1, 431):
        assert num_embeddings(frames) == _get_feat_extract_output_lengths(frames), frames
    assert num_embeddings(0) == 0


def test_a_frame_of_40_ms_has_the_embedding_that_covers_it() -> None:
    second = [*(index // 2 for index in range(24)), 12]
    assert frame_embeddings(SAMPLE_RATE, 13).tolist() == second
    two_and_a_bit = [*second, *(13 + index for index in second), 26, 26, 27]
    assert frame_embeddings(2 * SAMPLE_RATE + 3 * FRAME, 28).tolist() == two_and_a_bit


def test_each_embedding_covers_at_least_one_frame_whatever_the_duration() -> None:
    for samples in range(201, 3 * SAMPLE_RATE, 37):
        embeddings = num_embeddings(samples // HOP)
        covering = frame_embeddings(samples, embeddings)
        assert len(covering) == -(-samples // FRAME)
        assert covering.unique().tolist() == list(range(embeddings)), samples
        # a frame begins within the 80 ms after the beginning of its embedding; the surplus of the
        # last frame is shorter than a feature frame
        begins = covering // 13 * SAMPLE_RATE + covering % 13 * 8 * HOP
        ahead = torch.arange(len(covering)) * FRAME - begins
        assert bool((ahead >= 0).all())
        assert int(ahead.max()) <= 8 * HOP, samples
