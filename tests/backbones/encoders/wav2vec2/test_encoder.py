import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.fixtures.shapes import ENCODER
from zoo.backbones.encoders.wav2vec2 import encoder as module
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES, EncoderConfig, StreamingEncoder


def make(**changes: object) -> StreamingEncoder:
    torch.manual_seed(0)
    return StreamingEncoder(dataclasses.replace(ENCODER, **changes)).double()


def audio(chunks: int, batch: int = 1, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, chunks * CHUNK_SAMPLES, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("left_pad", [80, 399])
@pytest.mark.parametrize("chunks", [1, 3])
def test_a_chunk_is_48_frames(left_pad: int, chunks: int) -> None:
    encoder = make(left_pad=left_pad)
    assert encoder(audio(chunks), 1).hidden.shape == (1, 48 * chunks, 16)
    assert encoder.feature_extractor(F.pad(audio(chunks), (left_pad, 0))).shape == (
        1,
        8,
        48 * chunks,
    )


@pytest.mark.parametrize("left_pad", [80, 399])
def test_frames_of_a_chunk_do_not_depend_on_the_next(left_pad: int) -> None:
    encoder, first = make(left_pad=left_pad), audio(2)
    second = first.clone()
    second[:, CHUNK_SAMPLES] += 1
    before, after = encoder(first, 1).hidden, encoder(second, 1).hidden
    assert torch.equal(before[:, :48], after[:, :48])
    assert not torch.allclose(before[:, 48], after[:, 48])


def seen(config: EncoderConfig, frame: int, frames: int, multiplier: int) -> tuple[int, int]:
    grid = torch.arange(frames)
    row = StreamingEncoder(config).visible(grid, grid, 48 * multiplier)[frame]
    keys = row.nonzero().flatten()
    assert keys.numel() == keys[-1] - keys[0] + 1
    return int(keys[0]), int(keys[-1])


def test_block_causal_window_by_hand() -> None:
    chunks = dataclasses.replace(ENCODER, window=3)
    assert seen(chunks, 0, 240, 1) == (0, 47)
    assert seen(chunks, 47, 240, 1) == (0, 47)
    assert seen(chunks, 143, 240, 1) == (0, 143)
    assert seen(chunks, 144, 240, 1) == (48, 191)
    assert seen(chunks, 95, 288, 2) == (0, 95)
    assert seen(chunks, 96, 288, 2) == (0, 191)
    assert seen(chunks, 192, 288, 2) == (96, 287)
    assert seen(chunks, 200, 240, 4) == (96, 239)
    frames = dataclasses.replace(ENCODER, window=2, window_unit="frames")
    assert seen(frames, 95, 240, 1) == (0, 95)
    assert seen(frames, 100, 240, 1) == (4, 143)
    assert seen(frames, 143, 240, 1) == (47, 143)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_signals_of_different_lengths_are_encoded_as_if_alone(multiplier: int) -> None:
    encoder, lengths = make(), [48 * 6, 100, 4]
    together = audio(6, batch=3)
    for row, frames in enumerate(lengths):
        together[row, 320 * frames :] = 0
    hidden = encoder(together, multiplier, torch.tensor(lengths)).hidden
    assert torch.isfinite(hidden).all()
    for row, frames in enumerate(lengths):
        alone = encoder(together[row : row + 1, : 320 * frames], multiplier).hidden[0]
        torch.testing.assert_close(hidden[row, :frames], alone, rtol=0, atol=1e-12)
    unmasked = encoder(together, multiplier).hidden
    assert not torch.allclose(unmasked[1, :100], hidden[1, :100])


def test_a_key_outside_the_window_does_not_matter() -> None:
    encoder, first = make(layers=1), audio(4)
    second = first.clone()
    second[:, 1000:9000] += 1
    before, after = encoder(first, 1).hidden, encoder(second, 1).hidden
    assert not torch.allclose(before[:, 48:96], after[:, 48:96])
    assert torch.equal(before[:, 96:], after[:, 96:])


@pytest.mark.parametrize("left_pad", [80, 399])
@pytest.mark.parametrize("unit", ["chunks", "frames"])
@pytest.mark.parametrize("multiplier", [1, 2, 3])
def test_chunk_by_chunk_equals_the_whole(left_pad: int, unit: str, multiplier: int) -> None:
    encoder, signal = make(left_pad=left_pad, window_unit=unit), audio(7)
    whole = encoder(signal, multiplier).hidden[0]
    state = encoder.open()
    parts = [
        encoder.stream([state], [block])[0] for block in signal[0].split(CHUNK_SAMPLES * multiplier)
    ]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-10)
    assert state.cache.shape[3] == encoder.config.past_frames
    assert state.left.numel() == left_pad


@pytest.mark.parametrize("rope_angles", ["exact", "bfloat16"])
def test_streams_of_different_age_and_block_size_share_a_batch(rope_angles: str) -> None:
    encoder, signals = make(window=4, rope_angles=rope_angles), audio(6, batch=3)
    alone, together = [encoder.open() for _ in range(3)], [encoder.open() for _ in range(3)]
    for row in (1, 2):
        for states in (alone, together):
            encoder.stream([states[row]], [signals[row, : CHUNK_SAMPLES * row]])
    blocks = [
        signal[2 * CHUNK_SAMPLES : size * CHUNK_SAMPLES]
        for signal, size in zip(signals, (3, 4, 3), strict=True)
    ]
    batched = encoder.stream(together, blocks)
    for row in range(3):
        torch.testing.assert_close(
            batched[row], encoder.stream([alone[row]], [blocks[row]])[0], rtol=0, atol=1e-10
        )
        torch.testing.assert_close(together[row].cache, alone[row].cache, rtol=0, atol=1e-10)


def test_attention_depends_on_distance_only() -> None:
    query, key = torch.randn(2, 1, 4, dtype=torch.float64)
    cos, sin = module.rotary(20, 4, 10_000.0, torch.float64, torch.device("cpu"))

    def score(i: int, j: int) -> Tensor:
        return (module.rotate(query, cos[i], sin[i]) * module.rotate(key, cos[j], sin[j])).sum()

    torch.testing.assert_close(score(3, 1), score(19, 17))
    assert not torch.isclose(score(3, 1), score(3, 2))
