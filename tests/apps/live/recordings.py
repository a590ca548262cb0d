"""Recordings in the formats that clients send, and what a stream makes of them."""

import asyncio
import io
from collections.abc import Sequence

import av
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from zoo.apps.live.audio import AudioInput

RATE = 48_000
# Name, muxer, encoder, options of the muxer.
FORMATS: dict[str, tuple[str, str, dict[str, str]]] = {
    "WAV": ("wav", "pcm_s16le", {}),
    "FLAC": ("flac", "flac", {}),
    "MP3": ("mp3", "libmp3lame", {}),
    "MP3 without tags": ("mp3", "libmp3lame", {"id3v2_version": "0", "write_xing": "0"}),
    "Ogg": ("ogg", "libopus", {}),
    "WebM": ("webm", "libopus", {"live": "1"}),
    "MP4": ("mp4", "aac", {"movflags": "frag_keyframe+empty_moov+default_base_moof"}),
    "AAC": ("adts", "aac", {}),
}
OTHERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "plain MP4": ("mp4", "aac", {}),
    "Matroska with AC-3": ("matroska", "ac3", {}),
}


def speech_like(seconds: float = 2.0, rate: int = RATE) -> npt.NDArray[np.int16]:
    """Tones whose loudness changes, as 16-bit samples."""
    time = np.arange(int(seconds * rate)) / rate
    wave = np.sin(2 * np.pi * 300 * time) + 0.5 * np.sin(2 * np.pi * 1100 * time)
    return np.asarray(8000 * wave * np.sin(2 * np.pi * 1.5 * time), np.int16)


def encode(samples: npt.NDArray[np.int16], name: str, rate: int = RATE) -> bytes:
    """A file in one of ``FORMATS`` or ``OTHERS``."""
    muxer, encoder, options = {**FORMATS, **OTHERS}[name]
    file = io.BytesIO()
    with av.open(file, "w", format=muxer, options=options) as container:
        stream = container.add_stream(encoder, rate=rate, layout="mono")
        codec = stream.codec_context
        codec.open()
        resampler = av.AudioResampler(
            format=codec.format, layout="mono", rate=rate, frame_size=codec.frame_size or 1024
        )
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = rate
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return file.getvalue()


def pieces(data: bytes, size: int) -> list[bytes]:
    """Bytes in messages of one size."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def samples_in(audio: AudioInput, messages: Sequence[bytes], *, final: bool = True) -> Tensor:
    """The samples that messages have; the last one ends the audio if ``final``."""

    async def collect() -> Tensor:
        parts = [torch.zeros(0)]
        try:
            for place, data in enumerate(messages):
                is_last = final and place == len(messages) - 1
                parts += [part async for part in audio.receive(data, final=is_last)]
        finally:
            await audio.close()
        return torch.cat(parts)

    return asyncio.run(collect())
