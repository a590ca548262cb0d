"""Legal and illegal audio files, and their samples after loading."""

import math
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError


def tone(rate: int, seconds: float) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 440 * np.arange(round(rate * seconds)) / rate)


def test_write_then_load_keeps_16_bit_values(tmp_path: Path) -> None:
    samples = torch.tensor([-1.0, -0.5, 0.0, 1 / 32768, 0.25, 32767 / 32768])
    audio.write(tmp_path / "a.wav", samples)
    assert torch.equal(audio.load(tmp_path / "a.wav"), samples)


def test_write_clips(tmp_path: Path) -> None:
    audio.write(tmp_path / "a.wav", torch.tensor([2.0, -2.0]))
    assert audio.load(tmp_path / "a.wav").tolist() == [32767 / 32768, -1.0]


def test_start_and_duration_select_a_section(tmp_path: Path) -> None:
    samples = torch.arange(3200) / 32768
    audio.write(tmp_path / "a.wav", samples)
    assert torch.equal(audio.load(tmp_path / "a.wav", start=0.05, duration=0.1), samples[800:2400])
    assert torch.equal(audio.load(tmp_path / "a.wav", start=0.15, duration=9.0), samples[2400:])


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100])
def test_other_sample_rates_are_resampled(tmp_path: Path, rate: int) -> None:
    soundfile.write(tmp_path / "a.wav", tone(rate, 1.0), rate)
    loaded = audio.load(tmp_path / "a.wav")
    assert loaded.dtype == torch.float32
    assert abs(len(loaded) - 16_000) <= 1
    expected = torch.from_numpy(tone(16_000, 1.0)).float()
    assert torch.allclose(loaded[1000:15_000], expected[1000:15_000], atol=0.01)
    assert audio.duration(tmp_path / "a.wav") == pytest.approx(1.0)


def test_stereo_is_averaged(tmp_path: Path) -> None:
    left = tone(16_000, 0.1)
    soundfile.write(tmp_path / "a.wav", np.stack([left, np.zeros_like(left)], axis=1), 16_000)
    assert torch.allclose(
        audio.load(tmp_path / "a.wav"), torch.from_numpy(left / 2).float(), atol=1e-4
    )


def test_silent_and_very_short_files_are_legal(tmp_path: Path) -> None:
    audio.write(tmp_path / "a.wav", torch.zeros(1600))
    assert audio.load(tmp_path / "a.wav").tolist() == [0.0] * 1600
    assert audio.duration(tmp_path / "a.wav") == 0.1


def test_unknown_length_of_a_streamed_file_is_legal(tmp_path: Path) -> None:
    audio.write(tmp_path / "a.wav", torch.zeros(1600))
    data = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "b.wav").write_bytes(data[:4] + b"\xff" * 4 + data[8:40] + b"\xff" * 4 + data[44:])
    assert len(audio.load(tmp_path / "b.wav")) == 1600


def broken(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.{'flac' if 'flac' in kind else 'wav'}"
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 16_000)
    match kind:
        case "empty":
            path.touch()
        case "text":
            path.write_text("hello " * 100)
        case "no samples":
            soundfile.write(path, np.zeros(0), 16_000)
        case "header only" | "cut" | "cut flac":
            soundfile.write(path, noise, 16_000)
            path.write_bytes(path.read_bytes()[: 20 if kind == "header only" else 10_000])
        case "nan" | "infinite":
            soundfile.write(
                path,
                np.array([0, math.nan if kind == "nan" else math.inf]),
                16_000,
                subtype="FLOAT",
            )
        case "folder":
            path.mkdir()
    return path


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("missing", "does not exist"),
        ("folder", "does not exist or is not a file"),
        ("empty", "damaged or not audio"),
        ("text", "damaged or not audio"),
        ("header only", "damaged or not audio"),
        ("no samples", "has no samples"),
        ("cut", "truncated"),
        ("cut flac", "damaged"),
        ("nan", "NaN or infinite"),
        ("infinite", "NaN or infinite"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, kind: str, what: str) -> None:
    path = broken(tmp_path, kind)
    with pytest.raises(ZooError, match=what) as caught:
        audio.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_start_outside_of_the_file(tmp_path: Path) -> None:
    audio.write(tmp_path / "a.wav", torch.zeros(1600))
    for start in (0.1, -0.1):
        with pytest.raises(ZooError, match=r"lasts 0\.100 s"):
            audio.load(tmp_path / "a.wav", start=start)


def test_unwritable(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="Cannot write"):
        audio.write(tmp_path / "nowhere" / "a.wav", torch.zeros(10))


def test_chunks() -> None:
    samples = torch.arange(10.0)
    assert [chunk.tolist() for chunk in audio.chunks(samples, 4)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert list(audio.chunks(torch.zeros(0), 4)) == []
    with pytest.raises(ZooError, match="at least 1 sample"):
        audio.chunks(samples, 0)
