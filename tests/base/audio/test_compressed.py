"""MP3 and Ogg files of which libsndfile reads a part, cut files, and stereo that cancels."""

import io
import logging
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError

RATE = 44_100
BITRATES = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)  # MPEG 1, layer III
# A tone that rises from 200 to 3000 Hz in 3 s, so that places are recognised.
TIMES = np.arange(3 * RATE) / RATE
SOUND = (0.3 * np.sin(2 * np.pi * (200 + 2800 * TIMES / 6) * TIMES)).astype(np.float32)


def encoded(format: str, samples: np.ndarray = SOUND, **options: object) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, RATE, format=format, **options)
    return buffer.getvalue()


def mp3(mode: str, *, tag: bool) -> bytes:
    """An MP3 with or without its first frame, which has the number of frames."""
    content = encoded("MP3", bitrate_mode=mode, compression_level=0.6)
    if tag:
        return content
    (head,) = struct.unpack(">I", content[:4])
    return content[144 * BITRATES[head >> 12 & 15] * 1000 // RATE + (head >> 9 & 1) :]


def streamed_flac() -> bytes:
    """A FLAC file as a program writes it to a pipe: 0 samples by its header."""
    content = bytearray(encoded("FLAC"))
    content[21] &= 0xF0  # the number has 36 bits
    content[22:26] = bytes(4)
    return bytes(content)


def streamed_au() -> bytes:
    content = bytearray(encoded("AU", subtype="PCM_16"))
    content[8:12] = b"\xff" * 4
    return bytes(content)


ID3 = b"ID3\x03\x00\x00\x00\x00\x02\x00" + bytes(256)
OGG = encoded("OGG", subtype="VORBIS")
OPUS = io.BytesIO()
soundfile.write(OPUS, soxr.resample(SOUND, RATE, 48_000), 48_000, format="OGG", subtype="OPUS")

# Content and seconds.
WHOLE: dict[str, tuple[Callable[[], bytes], float]] = {
    "constant.mp3": (lambda: mp3("CONSTANT", tag=True), 3.0),
    "variable.mp3": (lambda: mp3("VARIABLE", tag=True), 3.0),
    "constant without count.mp3": (lambda: mp3("CONSTANT", tag=False), 3.0),
    "variable without count.mp3": (lambda: mp3("VARIABLE", tag=False), 3.0),
    "names and variable without count.mp3": (lambda: ID3 + mp3("VARIABLE", tag=False), 3.0),
    "two.mp3": (lambda: 2 * mp3("CONSTANT", tag=True), 6.0),
    "two with names.mp3": (lambda: 2 * (ID3 + mp3("VARIABLE", tag=True)), 6.0),
    "without count and with.mp3": (
        lambda: mp3("VARIABLE", tag=False) + mp3("VARIABLE", tag=True),
        6.0,
    ),
    "vorbis.ogg": (lambda: OGG, 3.0),
    "two of vorbis.ogg": (lambda: 2 * OGG, 6.0),
    "three of vorbis.ogg": (lambda: 3 * OGG, 9.0),
    "opus.opus": (OPUS.getvalue, 3.0),
    "two of opus.opus": (lambda: 2 * OPUS.getvalue(), 6.0),
    "flac.flac": (lambda: encoded("FLAC"), 3.0),
    "two of flac.flac": (lambda: 2 * encoded("FLAC"), 6.0),
    "five of flac.flac": (lambda: 5 * encoded("FLAC"), 15.0),
    "flac without the number of samples.flac": (streamed_flac, 3.0),
    "au.au": (lambda: encoded("AU", subtype="PCM_16"), 3.0),
    "au without a size.au": (streamed_au, 3.0),
    "caf.caf": (lambda: encoded("CAF", subtype="PCM_16"), 3.0),
    "rf64.rf64": (lambda: encoded("RF64", subtype="PCM_16"), 3.0),
}


def correlation(samples: torch.Tensor, place: float) -> float:
    """How well a second of loaded samples fits the sound that was written, at its best shift."""
    wanted = soxr.resample(SOUND, RATE, 16_000)[8_000:24_000]
    first = round((place + 0.5) * 16_000)
    fits = [
        float(np.corrcoef(wanted, samples[first + shift : first + shift + 16_000])[0, 1])
        for shift in range(-1600, 1600)
        if first + shift >= 0 and first + shift + 16_000 <= len(samples)
    ]
    return max(fits)


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_is_read_to_its_end(name: str, tmp_path: Path) -> None:
    content, seconds = WHOLE[name]
    path = tmp_path / name
    path.write_bytes(content())
    samples = audio.load(path)
    # a decoder may keep the delay of an encoder and the padding of the last frame of each part
    assert seconds - 0.02 <= len(samples) / 16_000 <= seconds + 0.1 * seconds / 3
    assert audio.duration(path) == pytest.approx(len(samples) / 16_000, abs=1e-3)
    assert correlation(samples, 0.0) > 0.9
    assert correlation(samples, seconds - 3.0) > 0.9
    part = audio.load(path, start=seconds - 1.0, duration=0.5)
    assert torch.allclose(
        part[1000:-1000], samples[round((seconds - 1) * 16_000) :][1000:7000], atol=1e-3
    )


def test_a_joined_file_in_an_archive(tmp_path: Path) -> None:
    (tmp_path / "two.mp3").write_bytes(2 * mp3("CONSTANT", tag=True))
    with tarfile.open(tmp_path / "corpus.tar", "w") as archive:
        archive.add(tmp_path / "two.mp3", "two.mp3")
    inside, outside = tmp_path / "corpus.tar" / "two.mp3", tmp_path / "two.mp3"
    assert torch.equal(audio.load(inside), audio.load(outside))


def wave(bits: int, subtype: str) -> bytes:
    """A WAV whose header gives the bits of a sample."""
    content = bytearray(encoded("WAV", subtype=subtype))
    struct.pack_into("<H", content, content.index(b"fmt ") + 8 + 14, bits)
    return bytes(content)


CUT: dict[str, tuple[bytes, str]] = {
    "half of a Vorbis.ogg": (OGG[: len(OGG) // 2], "truncated: it ends in a page|has no samples"),
    "nearly all of a Vorbis.ogg": (OGG[:-1], "truncated: it ends in a page"),
    "a header of a page.ogg": (OGG + OGG[:20], "truncated: it ends in a page"),
    "half of an Opus.opus": (OPUS.getvalue()[: len(OPUS.getvalue()) // 2], "truncated"),
    "half of an MP3.mp3": (mp3("CONSTANT", tag=True)[:12_000], "is truncated: it has"),
    "two.au": (2 * encoded("AU", subtype="PCM_16"), "is several files that were joined"),
    "two.caf": (2 * encoded("CAF", subtype="PCM_16"), "is several files that were joined"),
    "two.rf64": (2 * encoded("RF64", subtype="PCM_16"), "is several files that were joined"),
    "7 bits.wav": (wave(7, "PCM_U8"), "has samples of 7 bits; allowed are 8, 16, 24 and 32"),
    "15 bits.wav": (wave(15, "PCM_16"), "has samples of 15 bits"),
}


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("read", [audio.load, audio.duration])
def test_a_damaged_file_is_refused(
    name: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    content, sentence = CUT[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ZooError, match=sentence):
        read(tmp_path / name)


@pytest.mark.parametrize(("bits", "subtype"), [(8, "PCM_U8"), (12, "PCM_16"), (20, "PCM_24")])
def test_other_bits_are_read(bits: int, subtype: str, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wave(bits, subtype))
    assert len(audio.load(tmp_path / "a.wav")) == 48_000


def test_an_ogg_without_its_last_page(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A recording of a broadcast has no last page, and neither has a file that is cut at a page."""
    path = tmp_path / "cut.ogg"
    path.write_bytes(OGG[: OGG.rindex(b"OggS")])
    with caplog.at_level(logging.WARNING):
        audio.load(path)
    assert f"{path} has no last page; it may be truncated" in caplog.text


@pytest.mark.parametrize("level", [1.0, 0.95])
def test_channels_that_cancel(
    level: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / f"{level}.wav"
    soundfile.write(path, np.stack([SOUND, -level * SOUND], axis=1), RATE)
    with caplog.at_level(logging.WARNING):
        audio.load(path)
        audio.load(path)
    assert caplog.text.count(f"The channels of {path} cancel each other") == 1


def test_channels_that_differ(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack([SOUND, SOUND[::-1]], axis=1), RATE)
    soundfile.write(tmp_path / "b.wav", np.stack([SOUND, 0 * SOUND], axis=1), RATE)
    with caplog.at_level(logging.WARNING):
        audio.load(tmp_path / "a.wav")
        audio.load(tmp_path / "b.wav")
    assert caplog.text == ""


def test_blocks_are_resampled_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, SOUND, RATE, subtype="FLOAT")
    monkeypatch.setattr(audio, "BLOCK", 10_007)
    assert np.array_equal(audio.load(path).numpy(), soxr.resample(SOUND, RATE, 16_000))
