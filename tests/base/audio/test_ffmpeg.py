"""Where the sound of films and M4A files stands, and which of them are refused."""

import logging
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from tests.fixtures.films import CLICKS, RATE, SECONDS, clicks, write_film
from zoo.base.audio import files as audio
from zoo.base.audio.ffmpeg import FROM_ANY
from zoo.base.audio.timeline import Timeline
from zoo.base.errors import ZooError

LATE, GAP = 2.0, (2.0, 1.5)
KINDS = {
    "plain": {},
    "late": {"late": LATE},
    "gap": {"gap": GAP},
    "late film": {"late": LATE, "picture": True},
}
FORMATS = (".m4a", ".mp4", ".mov", ".mkv", ".webm", ".ts", ".flv", ".avi", ".wma", ".mpg")
# AVI and PCM in MOV have no time stamps of single frames, and the pictures of WMA, WebM, FLV and
# MPEG have other codings.
OTHERS = {
    (".avi", "late"), (".avi", "gap"), (".avi", "late film"), (".mov", "gap"),
    (".wma", "late film"), (".webm", "late film"), (".flv", "late film"), (".mpg", "late film"),
}  # fmt: skip
CASES = [(name, kind) for name in FORMATS for kind in KINDS if (name, kind) not in OTHERS]


def onsets(samples: np.ndarray, rate: int) -> list[float]:
    """Times of clicks in seconds."""
    found: list[int] = []
    for place in np.flatnonzero(np.abs(samples) > 0.25):
        if not found or place - found[-1] > rate / 4:
            found.append(int(place))
    return [place / rate for place in found]


def stamped_onsets(path: Path) -> list[float]:
    """Times of clicks by the time stamps of their frames."""
    found: list[float] = []
    with av.open(str(path)) as film:
        zero = film.start_time / 1e6 if film.format.name in FROM_ANY else 0.0
        for frame in film.decode(audio=0):
            values = frame.to_ndarray().reshape(-1)
            values = values / (32768 if values.dtype == np.int16 else 1)
            times = [frame.time - zero + one for one in onsets(values, frame.sample_rate)]
            found += [one for one in times if not found or one - found[-1] > 0.25]
    return found


@pytest.mark.parametrize(("suffix", "kind"), CASES)
def test_time_stamps_decide_where_sound_stands(
    suffix: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_film(tmp_path / f"talk{suffix}", [clicks()], **KINDS[kind])
    with caplog.at_level(logging.WARNING):
        samples = audio.load(path)
    places = onsets(samples.numpy(), 16_000)
    assert places == pytest.approx(stamped_onsets(path), abs=0.005)
    assert audio.duration(path) == len(samples) / 16_000
    from_zero = suffix in (".m4a", ".mp4", ".mov", ".mkv", ".webm")
    late = LATE if kind == "late film" or (kind == "late" and from_zero) else 0.0
    gap = GAP if kind == "gap" else (SECONDS, 0.0)
    # without an edit list, the delay of the encoder is part of the sound
    wanted = [click + late + (gap[1] if click > gap[0] else 0.0) for click in CLICKS]
    assert places == pytest.approx(wanted, abs=0.06)
    missing = late + gap[1]
    assert ("silence stands for it" in caplog.text) == (missing > 0)
    if missing:
        stated = float(caplog.text.split("no sound for ")[1].split(" s")[0])
        assert stated == pytest.approx(missing, abs=0.1)


def test_the_default_track_is_read(tmp_path: Path) -> None:
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(4 * RATE) / RATE).astype(np.float32)
    for default, tracks in enumerate(([clicks(), tone], [tone, clicks()])):
        path = write_film(tmp_path / f"{default}.mkv", tracks, default=default)
        assert onsets(audio.load(path).numpy(), 16_000) == pytest.approx(CLICKS, abs=0.005)


@pytest.mark.parametrize("suffix", [".m4a", ".mov", ".mkv", ".webm", ".avi", ".wma"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_film_that_was_cut_is_refused(suffix: str, share: float, tmp_path: Path) -> None:
    options = {"movflags": "faststart"} if suffix in (".m4a", ".mov") else {}
    path = write_film(tmp_path / f"talk{suffix}", [clicks()], options=options)
    content = path.read_bytes()
    path.write_bytes(content[: round(share * len(content))])
    with pytest.raises(ZooError, match=r"is truncated: it has \d+ of \d+ bytes"):
        audio.load(path)


def test_damage_moves_nothing(tmp_path: Path) -> None:
    path = write_film(tmp_path / "talk.m4a", [clicks(20.0)])
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 100] = np.random.default_rng(0).bytes(100)
    path.write_bytes(content)
    assert len(audio.load(path)) / 16_000 == pytest.approx(20.0, abs=0.05)
    content[middle // 2 : middle + middle // 2] = bytes(2 * (middle // 2))
    path.write_bytes(content)
    with pytest.raises(ZooError, match="is damaged"):
        audio.load(path)


def test_a_film_of_unsigned_samples(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.avi"), "w") as film:
        stream = film.add_stream("pcm_u8", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            np.array([[0, 128, 192] * 1000], np.uint8), format="u8", layout="mono"
        )
        frame.sample_rate, frame.pts = 16_000, 0
        film.mux(stream.encode(frame))
        film.mux(stream.encode(None))
    assert audio.load(tmp_path / "a.avi")[:3].tolist() == [-1.0, 0.0, 0.5]


def test_a_film_without_sound_or_samples(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as film:
        image = film.add_stream("mpeg4", rate=25, width=32, height=32)
        frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
        film.mux(image.encode(frame))
        film.mux(image.encode(None))
    with pytest.raises(ZooError, match=r"a\.mp4 has no sound"):
        audio.load(tmp_path / "a.mp4")


def test_tags_of_another_encoding(tmp_path: Path) -> None:
    path = write_film(tmp_path / "talk.mkv", [clicks()])
    content = path.read_bytes().replace(b"Lavf", b"L\xfcvf")
    assert b"L\xfcvf" in content
    path.write_bytes(content)
    assert len(audio.load(path)) == 64_000


def test_an_end_of_hours_is_refused(tmp_path: Path) -> None:
    """A file of some kilobytes fills no memory."""
    path = write_film(tmp_path / "talk.m4a", [clicks()], gap=(2.0, 7200.0))
    with pytest.raises(ZooError, match=r"has no sound for 2\.0 hours by its time stamps"):
        audio.load(path)
    silence = np.broadcast_to(np.float32(0), (90_000_000, 1))
    with pytest.raises(ZooError, match="has more than 24 hours"):
        list(Timeline(path, 0.0).place(None, 1000, silence))


def placed(stamps: list[float]) -> tuple[torch.Tensor, Timeline]:
    """Blocks of 100 samples at 1 kHz, each with its number, at time stamps."""
    timeline = Timeline(Path("a.ts"), 0.0)
    blocks = [
        one
        for number, stamp in enumerate(stamps)
        for one in timeline.place(stamp, 1000, np.full((100, 1), number + 1, np.float32))
    ]
    return torch.from_numpy(np.concatenate(blocks)[:, 0]), timeline


def test_times_that_vary_cut_nothing() -> None:
    samples, _ = placed([0.0, 0.108, 0.195, 0.3, 0.401])
    assert len(samples) == 500


def test_times_before_the_start_are_left_out() -> None:
    samples, _ = placed([-0.15, -0.05, 0.05])
    assert samples.tolist() == [2.0] * 50 + [3.0] * 100


def test_sound_that_overlaps_is_taken_once() -> None:
    samples, _ = placed([0.0, 0.1, 0.2, 0.1, 0.3])
    assert samples.tolist() == [1.0] * 100 + [2.0] * 100 + [3.0] * 100 + [5.0] * 100


def test_a_clock_that_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        samples, _ = placed([*np.arange(20) / 10, 0.0, 0.1])
    assert len(samples) == 2200
    assert caplog.text.count("time stamps of a.ts go back by 2.00 s at 2.00 s") == 1
