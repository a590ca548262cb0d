"""Complete blocks of kept audio are encoded once, with the output of a new encoding."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES, EncoderConfig, StreamingEncoder
from zoo.backbones.encoders.wav2vec2.features import KeptWave
from zoo.backbones.encoders.wav2vec2.kept_audio import KeptAudio, encode_kept

FRAME = 320
SIZES: dict[str, Any] = {"conv_channels": (6,) * 7, "hidden": 16, "layers": 3, "heads": 2, "ff": 8}
# Chunks of 960 ms: start of the kept audio and its end, at four requests of two streams
GROWING = [((0, 0.4), (0, 2.1)), ((0, 2.5), (0, 2.1)), ((0, 6.0), (0, 4.9)), ((0, 9.3), (0, 12.2))]
CUT = [((0, 4.5), (0, 2.5)), ((0.25, 5.0), (0, 4.5)), ((0.25, 5.5), (2, 7.0)), ((3, 9.0), (2, 8.5))]
SHORTER = [((0, 5.0), (0, 8.5)), ((0, 3.0), (0, 8.6)), ((0, 1.5), (0, 6.0)), ((0, 7.0), (0, 9.0))]


def make(**given: Any) -> StreamingEncoder:
    torch.manual_seed(0)
    return StreamingEncoder(EncoderConfig(**SIZES, **given)).double().eval()


def kept(audio: Tensor, first: float, last: float) -> KeptWave:
    """The audio between two moments, the last 13 samples of which are padding."""
    begin, end = round(first * CHUNK_SAMPLES), round(last * CHUNK_SAMPLES) // FRAME * FRAME
    wave = audio[begin:end].clone()
    wave[-13:] = 0
    return KeptWave(wave, len(wave) - 13, begin)


@pytest.mark.parametrize("looks", [GROWING, CUT, SHORTER], ids=["growing", "cut", "shorter"])
@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("unit", ["chunks", "frames"])
@pytest.mark.parametrize("left_pad", [0, 80])
@torch.inference_mode()
def test_audio_that_grows_is_encoded_as_if_it_were_new(
    looks: list[Any], window: int, unit: str, left_pad: int
) -> None:
    encoder = make(window=window, window_unit=unit, left_pad=left_pad)
    audio = torch.randn(2, 13 * CHUNK_SAMPLES, dtype=torch.float64)
    streams = [KeptAudio.of(encoder) for _ in audio]
    for look in looks:
        waves = [kept(row, *times) for row, times in zip(audio, look, strict=True)]
        found = encode_kept(encoder, streams, waves, block_chunks=2)
        for hidden, wave in zip(found, waves, strict=True):
            new = encoder(wave.wave[None], 2).hidden[0]
            torch.testing.assert_close(hidden, new, rtol=0, atol=1e-12)


@torch.inference_mode()
def test_complete_blocks_do_not_go_through_the_layers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = make()
    layers = type(encoder.encoder).forward
    frames: list[int] = []

    def counted(self: Any, x: Tensor, visible: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        frames.append(x.shape[1])
        return layers(self, x, visible, cache)

    monkeypatch.setattr(type(encoder.encoder), "forward", counted)
    audio = torch.randn(10 * CHUNK_SAMPLES, dtype=torch.float64)
    stream = KeptAudio.of(encoder)
    for last in (1.5, 2.5, 4.5, 5.0, 9.5):
        encode_kept(encoder, [stream], [kept(audio, 0, last)], block_chunks=2)
    assert frames == [72, 120, 216 - 96, 240 - 192, 456 - 192]
    assert stream.cache.shape[3] == 384  # less than the window
    encode_kept(encoder, [stream], [kept(audio, 1, 9.5)], block_chunks=2)
    assert frames[-1] == 408


@pytest.mark.parametrize(("angles", "chunks"), [("bfloat16", 2), ("exact", None)])
@torch.inference_mode()
def test_rounded_angles_and_a_single_block_are_encoded_anew(
    angles: str, chunks: int | None
) -> None:
    encoder = make(rope_angles=angles)
    audio = torch.randn(9 * CHUNK_SAMPLES, dtype=torch.float64)
    stream = KeptAudio.of(encoder)
    for last in (3.5, 6.0, 8.5):
        wave = kept(audio, 0, last)
        [hidden] = encode_kept(encoder, [stream], [wave], block_chunks=chunks)
        new = encoder(wave.wave[None], chunks or 9).hidden[0]
        torch.testing.assert_close(hidden, new, rtol=0, atol=1e-12)
        assert not len(stream.hidden)


@torch.inference_mode()
def test_no_audio_has_no_frames() -> None:
    encoder = make()
    audio = torch.randn(CHUNK_SAMPLES, dtype=torch.float64)
    streams = [KeptAudio.of(encoder) for _ in range(2)]
    waves = [KeptWave(audio[:0], 0, 0), kept(audio, 0, 1)]
    nothing, some = encode_kept(encoder, streams, waves, block_chunks=2)
    assert (len(nothing), len(some)) == (0, 48)
    [nothing] = encode_kept(encoder, streams[:1], waves[:1], block_chunks=2)
    assert nothing.shape == (0, SIZES["hidden"])
