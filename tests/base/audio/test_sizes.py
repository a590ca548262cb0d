"""Headers whose sizes do not fit the file, in either direction."""

import io
import logging
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError

RATE = 16_000
NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, RATE).astype(np.float32)


def content_of(format: str, subtype: str = "PCM_16") -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, NOISE, RATE, format=format, subtype=subtype)
    return buffer.getvalue()


WAV = content_of("WAV")


def wav(size: int, rest: bytes = b"") -> bytes:
    """A WAV file whose header gives another size of the samples."""
    place = WAV.index(b"data") + 4
    return WAV[:place] + struct.pack("<I", size) + WAV[place + 4 :] + rest


SIZE = 2 * RATE
# Placeholders of FFmpeg, libsndfile, SoX and GStreamer, with and without the header, and of a
# recorder that was ended.
PLACEHOLDERS = (
    *(0xFFFFFFFF, 0xFFFFFFDB, 0xFFFFF000, 0x80000000, 0x7FFFFFFF, 0x7FFFFFDB),
    *(0x7FFFF000, 0x7FFF0000, 0),
)


@pytest.mark.parametrize("size", PLACEHOLDERS)
def test_the_samples_of_a_pipe_go_on_to_the_end(size: int, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(size))
    (tmp_path / "b.wav").write_bytes(WAV)
    assert audio.duration(tmp_path / "a.wav") == 1.0
    assert np.array_equal(audio.load(tmp_path / "a.wav"), audio.load(tmp_path / "b.wav"))


@pytest.mark.parametrize("size", [SIZE + 2, 2 * SIZE, 0x70000000, 0x90000000])
def test_another_size_is_that_of_a_file_that_was_cut(size: int, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(size))
    with pytest.raises(ZooError, match=rf"is truncated: it has {len(WAV)} of {size + 44} bytes"):
        audio.load(tmp_path / "a.wav")


FORMATS = {
    **dict.fromkeys(("WAV", "WAVEX", "AIFF", "AU", "CAF", "W64", "RF64", "NIST"), "PCM_16"),
    "wav of GSM": "GSM610",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_was_cut_is_refused_in_every_format(name: str, tmp_path: Path) -> None:
    content = content_of("WAV" if "GSM" in name else name, FORMATS[name])
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    assert audio.duration(path) == pytest.approx(1.0, abs=0.02)
    path.write_bytes(content[: len(content) * 3 // 4])
    with pytest.raises(ZooError, match=r"is truncated"):
        audio.load(path)


RESTS = {
    "nothing": (b"", False),
    "a chunk": (b"LIST\x04\0\0\0abcd", False),
    "a chunk that was cut": (b"LIST\xff\0\0\0abcd", False),
    "zeros": (bytes(1000), False),
    "a tag": (b"TAG" + b"x" * 125, False),
    "samples": (b"\x07\x85\x99\xf3" * 1000, True),
}


@pytest.mark.parametrize("name", RESTS)
def test_what_follows_the_samples(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rest, is_named = RESTS[name]
    (tmp_path / "a.wav").write_bytes(wav(SIZE, rest))
    with caplog.at_level(logging.WARNING):
        assert audio.duration(tmp_path / "a.wav") == 1.0
    assert ("goes on for 4000 bytes after the samples" in caplog.text) == is_named


@pytest.mark.parametrize("format", ["WAV", "AIFF", "W64", "NIST"])
def test_joined_files_are_refused(format: str, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(2 * content_of(format))
    with pytest.raises(ZooError, match="is several files that were joined"):
        audio.load(tmp_path / "a.wav")


def test_gsm_in_wav(tmp_path: Path) -> None:
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    soundfile.write(tmp_path / "a.wav", tone, 8000, subtype="GSM610")
    samples = audio.load(tmp_path / "a.wav")
    assert len(samples) == pytest.approx(16_000, abs=640)
    expected = 0.3 * np.sin(2 * np.pi * 440 * np.arange(len(samples)) / 16_000)
    assert np.corrcoef(samples[1000:15_000], expected[1000:15_000])[0, 1] > 0.95
    assert len(audio.load(tmp_path / "a.wav", start=0.5, duration=0.25)) == 4000


def test_a_gap_in_an_opus_file(tmp_path: Path) -> None:
    """libsndfile repeats the sound before the gap, 4 s of words that were not spoken."""
    sound = np.tile(NOISE, 10)
    soundfile.write(tmp_path / "a.opus", sound, RATE, format="OGG", subtype="OPUS")
    content = (tmp_path / "a.opus").read_bytes()
    assert audio.duration(tmp_path / "a.opus") == pytest.approx(10.0)
    pages = [content.index(b"OggS")]
    while (after := content.find(b"OggS", pages[-1] + 4)) > 0:
        pages.append(after)
    middle = len(pages) // 2
    (tmp_path / "a.opus").write_bytes(content[: pages[middle]] + content[pages[middle + 1] :])
    with pytest.raises(ZooError, match=r"has a gap at \d\.\d s by its time stamps"):
        audio.load(tmp_path / "a.opus")
