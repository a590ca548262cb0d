"""Audio of clients in every format, without a network."""

import asyncio
import io
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from tests.apps.live.recordings import FORMATS, encode, pieces, samples_in, speech_like
from zoo.apps.live.audio import AudioInput
from zoo.apps.live.formats import ENCODINGS, UnusableAudio, container_of, is_undecided
from zoo.base.audio.ffmpeg import samples_of
from zoo.base.errors import ZooError

SPEECH = speech_like()
BARE = samples_in(AudioInput(48_000), [SPEECH.tobytes(), b""])


def whole(data: bytes) -> Tensor:
    """The samples of a file that is complete, read as 16-bit samples are."""
    with av.open(io.BytesIO(data)) as file:
        (rate,) = {stream.rate for stream in file.streams.audio}
        blocks = [samples_of(frame).mean(axis=1) for frame in file.decode(audio=0)]
    return samples_in(AudioInput(rate, "pcm_f32le"), [np.concatenate(blocks).tobytes(), b""])


@pytest.mark.parametrize("size", [1000])
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_in_pieces_is_the_file_as_a_whole(name: str, size: int) -> None:
    data = encode(SPEECH, name)
    found = samples_in(AudioInput(8_000), [*pieces(data, size), b""])  # the file has its own rate
    expected = whole(data)
    assert 0 <= len(found) - len(expected) < 0.05 * 16_000  # the padding of the last MP3 frame
    torch.testing.assert_close(found[: len(expected)], expected, atol=1e-3, rtol=0)
    if name in ("WAV", "FLAC"):
        torch.testing.assert_close(found, BARE, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["MP3 without tags", "Ogg", "WebM"])
def test_messages_of_a_byte_are_a_file(name: str) -> None:
    data = encode(speech_like(0.3), name)
    found = samples_in(AudioInput(), [*pieces(data, 1), b""])
    torch.testing.assert_close(found, whole(data), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["WAV", "WebM", "MP4", "AAC", "MP3", "MP3 without tags"])
def test_samples_come_soon_after_their_bytes(name: str) -> None:
    """Of the first two of four seconds, all but a fifth of a second are decoded."""
    data = encode(speech_like(4.0), name)
    found = samples_in(AudioInput(), pieces(data[: len(data) // 2], 400), final=False)
    assert found.numel() > 1.8 * 16_000


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_has_any_samples(subtype: str, channels: int) -> None:
    file = io.BytesIO()
    samples = np.stack(channels * [SPEECH / 32768], axis=1)
    soundfile.write(file, samples, 48_000, format="WAV", subtype=subtype)
    found = samples_in(AudioInput(), [*pieces(file.getvalue(), 3000), b""])
    atol = {"PCM_U8": 0.01, "ULAW": 0.02}.get(subtype, 1e-5)
    torch.testing.assert_close(found, BARE, atol=atol, rtol=0)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_the_header_of_a_streamed_wav_has_no_size(size: int) -> None:
    data = bytearray(encode(SPEECH, "WAV"))
    place = data.index(b"data")
    data[4:8] = data[place + 4 : place + 8] = struct.pack("<I", size)
    found = samples_in(AudioInput(), [*pieces(bytes(data), 2000), b""])
    torch.testing.assert_close(found, BARE, atol=1e-6, rtol=0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_of_bare_samples(encoding: str) -> None:
    subtype = {"pcm_s16le": "PCM_16", "pcm_f32le": "FLOAT", "g711_ulaw": "ULAW"}.get(
        encoding, "ALAW"
    )
    file = io.BytesIO()
    soundfile.write(file, SPEECH / 32768, 48_000, format="RAW", subtype=subtype)
    found = samples_in(AudioInput(48_000, encoding), [*pieces(file.getvalue(), 4000), b""])
    torch.testing.assert_close(found, BARE, atol=0.02 if "711" in encoding else 1e-4, rtol=0)


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_audio_in_pieces_is_the_audio_as_a_whole(rate: int) -> None:
    wave = speech_like(1.0, rate).tobytes()
    all_at_once = samples_in(AudioInput(rate), [wave])
    assert all_at_once.numel() == pytest.approx(16_000, abs=20)
    joined = samples_in(AudioInput(rate), [*pieces(wave, 2 * (rate // 7)), b""])
    torch.testing.assert_close(joined, all_at_once, atol=1e-3, rtol=0)


@pytest.mark.parametrize("rate", [0, -1, 3_999, 10**9, True, "16000", None, float("nan")])
def test_rates_are_numbers_in_a_range(rate: object) -> None:
    with pytest.raises(ZooError, match="sample_rate must be a number from 4000 to 384000 Hz"):
        AudioInput(rate)


@pytest.mark.parametrize("encoding", ["mp3", "", None, 3, ["pcm_s16le"]])
def test_other_encodings_are_refused(encoding: object) -> None:
    with pytest.raises(ZooError, match=r"Unknown encoding .*; choose one of: pcm_s16le, pcm_f32le"):
        AudioInput(16_000, encoding)


def test_a_long_encoding_is_compared_with_no_other() -> None:
    with pytest.raises(ZooError, match="Unknown encoding") as refused:
        AudioInput(16_000, "pcm_s16" * 1000)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(("encoding", "size"), [("pcm_s16le", 2), ("pcm_f32le", 4)])
def test_a_part_of_a_sample_is_refused(encoding: str, size: int) -> None:
    with pytest.raises(ZooError, match=f"a message has 3 bytes, no multiple of {size}"):
        samples_in(AudioInput(16_000, encoding), [b"abc"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 20_000.0])
def test_floating_point_samples_are_finite_and_of_full_scale(value: float) -> None:
    with pytest.raises(ZooError, match=r"NaN or infinite|far beyond full scale"):
        samples_in(AudioInput(16_000, "pcm_f32le"), [struct.pack("<f", value)])


@pytest.mark.parametrize("quiet", [1.0, 1e-3])
@pytest.mark.parametrize("silence", [0, 4000])
@pytest.mark.parametrize("size", [64, 4096])
def test_floating_point_samples_are_no_integers(quiet: float, silence: int, size: int) -> None:
    samples = np.concatenate([np.zeros(silence), quiet * SPEECH[100:] / 32768]).astype("<f4")
    with pytest.raises(UnusableAudio, match=r"looks like 32-bit floating-point .* pcm_f32le"):
        samples_in(AudioInput(48_000), pieces(samples.tobytes(), size))


def _signals() -> list[np.ndarray]:
    """Signals that 16-bit samples may be, some of them odd."""
    generator = np.random.default_rng(0)
    signals = [np.full(4000, value) for value in (-1, 1, 13_000, 16_384, -17_000, 32_767)]
    signals += [np.tile([13_000, 13_000, -17_000, -17_000], 1000)]  # a square wave
    signals += [scale * generator.standard_normal(4000) for scale in (1, 30, 3000, 20_000)]
    signals += [generator.integers(-32_768, 32_768, 4000)]  # noise at full scale
    signals += [np.round(a * np.sin(np.arange(4000) / b)) for a in (50, 32_000) for b in (3, 90)]
    return [np.clip(signal, -32_768, 32_767).astype("<i2") for signal in signals]


@pytest.mark.parametrize("signal", _signals())
def test_integers_are_no_floating_point_samples_and_no_file(signal: np.ndarray) -> None:
    found = samples_in(AudioInput(), pieces(signal.tobytes(), 640))
    assert torch.equal(found, torch.from_numpy(signal.astype(np.float32) / 32768))


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"FORM\0\0\1\0AIFFCOMM", "AIFF"),
        (b"caff\0\1\0\0", "CAF"),
        (b"#!AMR\n", "AMR"),
        (b"RIFF\0\0\1\0AVI LIST", "AVI"),
        (b"\x1f\x43\xb6\x75\xff\xff", "a part of WebM without its beginning"),
        (b"\0\0\0\x64moofabc", "a part of MP4 without its beginning"),
    ],
)
def test_other_files_are_refused(head: bytes, name: str) -> None:
    with pytest.raises(UnusableAudio, match=f"is {name}, which is not decoded .*; send 16-bit"):
        samples_in(AudioInput(), pieces(head, 1))


def test_a_head_is_undecided_until_it_is_a_beginning_or_none() -> None:
    for name in FORMATS:
        data = encode(speech_like(0.2), name)
        known = next(end for end in range(3000) if not is_undecided(data[:end]) and end)
        container = container_of(data[:known])
        assert container is not None
        assert container.name == name.split()[0]
    assert not is_undecided(b"abc")
    assert container_of(b"\xff\xfb\x90\xfb" + bytes(3000)) is None  # a frame without a next one


def test_a_plain_mp4_is_refused() -> None:
    """Its index is behind its audio."""
    data = encode(speech_like(8.0), "plain MP4")
    with pytest.raises(UnusableAudio, match="begins as MP4, which cannot be decoded"):
        samples_in(AudioInput(), [data, b""])


def test_other_codecs_and_files_without_audio_are_refused() -> None:
    with pytest.raises(UnusableAudio, match="its audio is ac3"):
        samples_in(AudioInput(), [encode(SPEECH, "Matroska with AC-3"), b""])
    film = io.BytesIO()
    with av.open(film, "w", format="matroska") as container:
        stream: Any = container.add_stream("mpeg4", rate=25)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))
        container.mux([*stream.encode(frame), *stream.encode(None)])
    with pytest.raises(UnusableAudio, match="it has no audio"):
        samples_in(AudioInput(), [film.getvalue(), b""])


@pytest.mark.parametrize("name", FORMATS)
def test_one_file_after_the_other_is_one_stream(name: str) -> None:
    data = encode(SPEECH, name)
    found = samples_in(AudioInput(), [data, *pieces(data, 5000), b""])
    once = samples_in(AudioInput(), [data, b""])
    assert found.numel() == pytest.approx(2 * once.numel(), rel=0.01)


def test_the_files_of_a_stream_have_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    start = asyncio.create_subprocess_exec

    async def counted(*command: str, **settings: Any) -> asyncio.subprocess.Process:
        starts.append(command)
        return await start(*command, **settings)

    monkeypatch.setattr("asyncio.create_subprocess_exec", counted)
    files = [encode(SPEECH[:4800], name) for name in ("WAV", "MP4", "WAV", "WAV")]
    found = samples_in(AudioInput(), [*files, b""])
    assert found.numel() == pytest.approx(4 * 1600, abs=800)
    assert len(starts) == 1


def test_tags_are_in_any_encoding() -> None:
    data = bytearray(encode(SPEECH, "MP3"))
    place = data.index(b"Lavf")
    data[place : place + 4] = b"\xb2\xff\xe9\xb2"
    assert samples_in(AudioInput(), [bytes(data), b""]).numel() > 1.9 * 16_000


def test_bytes_without_audio_are_bounded() -> None:
    picture = b"ID3\4\0\0" + bytes([0x7F, 0x7F, 0x7F, 0x7F])  # a tag of 256 MB
    with pytest.raises(UnusableAudio, match="8 MiB of it have no audio"):
        samples_in(AudioInput(), [picture, *(9 * [bytes(1 << 20)])])


def test_a_second_of_a_file_is_decoded_at_once() -> None:
    """A message of silence that a codec writes in a few bytes may be hours."""
    data = encode(np.zeros(30 * 48_000, np.int16), "FLAC")

    async def first() -> Tensor:
        audio = AudioInput()
        try:
            return await anext(audio.receive(data, final=True))
        finally:
            await audio.close()

    assert asyncio.run(first()).numel() < 3 * 16_000


@pytest.mark.parametrize("answer", ["", "head -c 8 /dev/zero"])
def test_a_decoder_that_hangs_holds_no_stream(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads nothing, or does not end after its last record."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{answer}\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(program))
    monkeypatch.setattr("zoo.apps.live.decoding.PATIENCE", 1.0)
    data = b"RIFF????WAVE" + bytes(1000 if answer else 1 << 20)

    async def receive() -> list[Tensor]:
        audio = AudioInput()
        try:
            async with asyncio.timeout(60):
                return [part async for part in audio.receive(data, final=True)]
        finally:
            await audio.close()

    if answer:
        assert asyncio.run(receive()) == []
    else:
        with pytest.raises(UnusableAudio, match="the decoder does not end"):
            asyncio.run(receive())


def test_samples_of_a_file_lead_to_no_warning() -> None:
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            samples_in(AudioInput(), [encode(SPEECH[:16_000], "FLAC", 16_000), b""])
    finally:
        torch.set_warn_always(False)


def damaged(data: bytes, trial: int) -> bytes:
    """A file with other bytes: cut, of any bytes after its beginning, or with a few of them."""
    generator = random.Random(trial)
    content = bytearray(data)
    for _ in range(generator.choice([1, 5, 200])):
        content[generator.randrange(len(content))] = generator.randrange(256)
    if trial % 3 == 0:
        del content[generator.randrange(len(content)) :]
    elif trial % 3 == 1:
        content[12:] = generator.randbytes(5000)
    return data[:12] + bytes(content[12:])


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_end_with_a_sentence_or_with_samples(name: str) -> None:
    data = encode(speech_like(0.5), name)
    samples, sentences = [torch.zeros(0)], []
    for trial in range(6):
        try:
            samples.append(samples_in(AudioInput(), [*pieces(damaged(data, trial), 700), b""]))
        except ZooError as error:
            sentences.append(str(error))
    assert torch.isfinite(torch.cat(samples)).all()
    assert all(sentence.startswith(("The audio ", "Audio has ")) for sentence in sentences)
    assert len(samples) + len(sentences) == 1 + 6
