"""Mimi frame by frame equals Mimi over the whole."""

from pathlib import Path

import pytest
import torch
from transformers import MimiModel

from tests.fixtures import hibiki_layout
from zoo.base.errors import ZooError
from zoo.extras.hibiki.codec import FRAME, REACH, Codec, Resampler

FRAMES = 24


@pytest.fixture
def codec(mimi: Path) -> Codec:
    return Codec(MimiModel.from_pretrained(mimi), source=3, target=3)


@torch.inference_mode()
def test_codes_and_speech_of_single_frames_are_those_of_the_whole(codec: Codec) -> None:
    """The attention of the codec reaches back less far than the stream is long."""
    samples = torch.randn(FRAMES * FRAME, generator=torch.Generator().manual_seed(0)) / 3
    state = codec.open()
    codes = torch.cat([codec.encode(state, frame) for frame in samples.split(FRAME)])
    speech = torch.cat([codec.decode(state, frame) for frame in codes.split(1)])
    assert codes.shape == (FRAMES, 3)
    assert speech.shape == samples.shape
    assert len(codes.unique()) > 10

    silence = torch.zeros(2 * REACH)
    _, wave = codec.to_codec(silence, samples)
    whole = codec.network.encode(wave[None, None], num_quantizers=3).audio_codes
    assert torch.equal(codes, whole[0].T)
    _, expected = codec.from_codec(silence, codec.network.decode(whole).audio_values[0, 0])
    torch.testing.assert_close(speech, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("before", "after"), [(16_000, 24_000), (24_000, 16_000)])
def test_a_resampled_tone_is_the_tone_late_by_the_reach(before: int, after: int) -> None:
    resampler = Resampler(before, after)
    tone = torch.sin(2 * torch.pi * 1000 * torch.arange(before) / before)
    history, first = resampler(torch.zeros(2 * REACH), tone[: before // 2])
    _, second = resampler(history, tone[before // 2 :])
    resampled = torch.cat([first, second])
    times = torch.arange(after) / after - REACH / before
    expected = torch.sin(2 * torch.pi * 1000 * times)
    middle = slice(200, -200)
    torch.testing.assert_close(resampled[middle], expected[middle], rtol=0, atol=0.01)


def test_a_codec_with_too_few_codebooks_is_refused(tmp_path: Path) -> None:
    hibiki_layout.mimi(tmp_path / "mimi", codebooks=2)
    with pytest.raises(ZooError, match=r"^The codec has 2 codebooks; this Hibiki needs 3\.$"):
        Codec(MimiModel.from_pretrained(tmp_path / "mimi"), source=3, target=2)
