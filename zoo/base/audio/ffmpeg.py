"""Samples that FFmpeg's libraries decode, which PyAV ships: M4A, the sound of films, joined MP3.

The content of a file decides its format. Only formats that have their sound in themselves are read:
a playlist is a text that names other files and addresses, and its name may end in ``.m4a``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from zoo.base.audio.sizes import check_sizes
from zoo.base.audio.timeline import Block, Timeline, join
from zoo.base.disk.tar_members import last_change, open_stored, size_of
from zoo.base.errors import ZooError

# FFmpeg's names of formats whose time stamps count from the start of the file, of those whose clock
# had any value when the recording began, and of those without time stamps.
FROM_ZERO = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi")
FROM_ANY = ("mpegts", "mpeg", "flv", "asf")
COUNTED = (
    *("aac", "ac3", "aiff", "amr", "ape", "au", "caf", "dsf", "dts", "dtshd", "eac3", "flac"),
    *("loas", "mp3", "mpc", "mpc8", "ogg", "truehd", "tta", "w64", "wav", "wv"),
)
# FFmpeg gets the file as an open object, so that it needs no protocol.
SAFE = {
    "format_whitelist": ",".join((*FROM_ZERO, *FROM_ANY, *COUNTED)),
    "protocol_whitelist": "none",
}
ALLOWED = (
    "Allowed are WAV, FLAC, OGG, MP3, M4A and other audio files, and films with sound, with any "
    "sample rate and any number of channels."
)
TAGS = "replace"  # what becomes of letters in another encoding
MOST_DAMAGED = 0.1  # largest share of frames that may be no audio


@contextmanager
def open_media(path: Path) -> Iterator[Any]:
    """Open a file with FFmpeg's libraries, which open no other file.

    Args:
        path: audio file or film, also in an archive.

    Raises:
        ZooError: the file is damaged, truncated or in a format that is not read.
    """
    import av  # a slow import, which other files do not need

    if not size_of(path):
        raise ZooError(f"Audio file {path} is damaged or not audio (it is empty). {ALLOWED}")
    try:
        with (
            open_stored(path) as content,
            av.open(content, container_options=SAFE, metadata_errors=TAGS) as container,
        ):
            yield container
    except av.FFmpegError as error:
        # what is not in the list of formats is a wrong argument to FFmpeg
        reason = "another format" if isinstance(error, av.ArgumentError) else error.strerror
        raise ZooError(
            f"Audio file {path} is damaged or not audio ({reason}). {ALLOWED}"
        ) from error


def decode(path: Path) -> Iterator[tuple[int, Block]]:
    """Yield the samples of a file to its end, with their sample rate.

    Where a format has time stamps, they decide where samples stand, and silence stands for what is
    missing. Of several tracks, the default one is read.

    Args:
        path: audio file or film, also in an archive.

    Raises:
        ZooError: the file is damaged, truncated, too long, without sound or in a format that is not
            read.
    """
    with open_media(path) as container:
        name = container.format.name
        check_sizes(path, name, last_change(path))
        start = (container.start_time or 0) / 1e6  # it is in microseconds
        timeline = Timeline(path, start if name in FROM_ANY else 0.0)
        placed = (
            (frame.sample_rate, block)
            for frame in _frames(path, container)
            for block in timeline.place(
                None if name in COUNTED else frame.time, frame.sample_rate, samples_of(frame)
            )
        )
        yield from join(placed)
        timeline.finish()


def _frames(path: Path, container: Any) -> Iterator[Any]:
    """Yield the frames of the sound. Raises ZooError if too many are damaged."""
    import av  # a slow import, which other files do not need

    packets = damaged = 0
    for packet in container.demux(sound_track(path, container)):
        packets += 1
        try:
            frames = packet.decode()
        except av.FFmpegError:  # such as the tags of the second one of joined files
            damaged += 1
            continue
        yield from frames
    if damaged > MOST_DAMAGED * packets:
        raise ZooError(f"Audio file {path} is damaged: {damaged} of {packets} frames are no audio.")


def sound_track(path: Path, container: Any) -> Any:
    """Return the default one of the tracks with sound.

    Args:
        path: the file, for messages.
        container: the open file.

    Raises:
        ZooError: no track has sound that can be decoded.
    """
    tracks = container.streams.audio
    if not tracks:
        raise ZooError(f"Audio file {path} has no sound.")
    default = next((one for one in tracks if one.disposition & one.disposition.default), tracks[0])
    if default.codec_context is None:
        raise ZooError(f"Audio file {path} has sound in a coding that cannot be decoded.")
    return default


def samples_of(frame: Any) -> Block:
    """Return the samples of a frame of PyAV, which may be integers and interleaved.

    Args:
        frame: A frame that was decoded.
    """
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    if np.issubdtype(values.dtype, np.unsignedinteger):
        values = values.astype(np.float32) / 128 - 1
    elif np.issubdtype(values.dtype, np.integer):
        values = values / -float(np.iinfo(values.dtype).min)
    return np.asarray(values.T, dtype=np.float32)
