"""Frames of a frozen encoder are computed once, as in streaming."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES, EncoderConfig, StreamingEncoder
from zoo.base.audio import files as audio
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data.excerpts import Excerpt, ExcerptConfig, Excerpts
from zoo.data.robust_segments import RobustSegments
from zoo.data.sampling import Stretches
from zoo.training.encoded import encode_talks

CPU = torch.device("cpu")
CHUNKS = {"long": 7.3, "short": 3.0}


@pytest.fixture
def encoder() -> StreamingEncoder:
    torch.manual_seed(0)
    return StreamingEncoder(
        EncoderConfig(conv_channels=[8] * 7, hidden=16, layers=2, heads=2, ff=32, window=3)
    )


@pytest.fixture
def talks(tmp_path: Path) -> list[Talk]:
    all_talks = []
    for seed, (name, chunks) in enumerate(CHUNKS.items()):
        samples = (
            torch.randn(
                round(chunks * CHUNK_SAMPLES), generator=torch.Generator().manual_seed(seed)
            )
            / 10
        )
        audio.write(tmp_path / f"{name}.wav", samples)
        segment = Segment(0.0, 0.5, "hello")
        all_talks.append(
            Talk(name, tmp_path / f"{name}.wav", samples.numel() / 16_000, "en", (segment,))
        )
    return all_talks


@pytest.mark.parametrize("multiplier", [1, 2])
def test_frames_are_those_of_streaming_the_whole_talk(
    encoder: StreamingEncoder, talks: list[Talk], multiplier: int, tmp_path: Path
) -> None:
    encoded = encode_talks(encoder, talks, [multiplier], device=CPU, cache=tmp_path)
    stretches = Stretches([2], [multiplier])
    segments = RobustSegments(talks, chunk_seconds=0.96, on_grid=True, stretches=stretches)
    random = np.random.default_rng(0)
    places = np.concatenate([segments.plan(random).positions for _ in range(5)])
    for segment in (segments.segment(place) for place in places):
        samples = audio.load(segment.talk.file)
        samples = torch.nn.functional.pad(
            samples, (0, -samples.numel() % (CHUNK_SAMPLES * multiplier))
        )
        first = round(segment.start * 50)
        expected = encoder(samples[None], multiplier).hidden[0, first : first + 96]
        torch.testing.assert_close(
            encoded.between(segment.talk, first, first + 96, multiplier),
            expected,
            rtol=0.05,
            atol=0.05,
        )  # bf16


@pytest.mark.parametrize(("start", "end"), [(0.0, 1.0), (1.93, 2.51), (6.995, 7.008)])
def test_an_excerpt_has_the_frames_that_it_overlaps(
    encoder: StreamingEncoder, talks: list[Talk], tmp_path: Path, start: float, end: float
) -> None:
    words = (Word("hello", 0.0, 0.5),)
    segment = Segment(0.0, 0.5, "hello", words, {"de": Target("hallo", ("hallo",), ((0,),))})
    talks = [replace(talk, segments=(segment,)) for talk in talks]
    encoded = encode_talks(encoder, talks, [2], device=CPU, cache=tmp_path)
    excerpts = Excerpts(talks, language("de"), ExcerptConfig(encoded=True))
    excerpts.encode(lambda _: encoded)
    frames = excerpts._with_frames(Excerpt(talks[0], start, end, (), (), language("de"))).frames
    samples = audio.load(talks[0].file)
    samples = torch.nn.functional.pad(samples, (0, -samples.numel() % (2 * CHUNK_SAMPLES)))
    touched = [frame for frame in range(400) if frame / 50 < end and (frame + 1) / 50 > start]
    expected = encoder(samples[None], 2).hidden[0, touched]
    torch.testing.assert_close(frames, expected, rtol=0.05, atol=0.05)  # bf16


def test_they_are_computed_once_per_encoder(
    encoder: StreamingEncoder, talks: list[Talk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_talks(encoder, talks, [1], device=CPU, cache=tmp_path)
    streamed: list[int] = []
    stream = StreamingEncoder.stream
    monkeypatch.setattr(
        StreamingEncoder, "stream", lambda *given: streamed.append(1) or stream(*given)
    )
    encode_talks(encoder, talks, [1], device=CPU, cache=tmp_path)
    assert streamed == []
    encode_talks(encoder, talks, [1, 2], device=CPU, cache=tmp_path)
    assert len(streamed) == 4  # the longer talk has four blocks of two chunks
    with torch.no_grad():
        encoder.encoder.layer_norm.weight += 1
    encode_talks(encoder, talks, [1], device=CPU, cache=tmp_path)
    assert len(list(tmp_path.glob("encoded-*"))) == 2


def test_damaged_frames_are_computed_again(
    encoder: StreamingEncoder, talks: list[Talk], tmp_path: Path
) -> None:
    good = encode_talks(encoder, talks, [1], device=CPU, cache=tmp_path).between(talks[0], 0, 96)
    (file,) = tmp_path.glob("encoded-*/m1.npy")
    content = file.read_bytes()
    file.write_bytes(content[:-4000] + bytes(4000))
    again = encode_talks(encoder, talks, [1], device=CPU, cache=tmp_path)
    assert torch.equal(again.between(talks[0], 0, 96), good)
    assert file.read_bytes() == content


def test_cut_short_it_starts_again(
    encoder: StreamingEncoder, talks: list[Talk], tmp_path: Path
) -> None:
    class Cut(Exception):
        pass

    def cut(*_: object) -> None:
        raise Cut

    whole = encode_talks(encoder, talks, [1], device=CPU, cache=tmp_path / "whole")
    encoder.stream, stream = cut, encoder.stream  # type: ignore[assignment]
    with pytest.raises(Cut):
        encode_talks(encoder, talks, [1], device=CPU, cache=tmp_path / "broken")
    encoder.stream = stream  # type: ignore[method-assign]
    again = encode_talks(encoder, talks, [1], device=CPU, cache=tmp_path / "broken")
    assert torch.equal(again.between(talks[0], 0, 96), whole.between(talks[0], 0, 96))
