"""Audio inside the report: source audio of the talks and target speech of the streams, in base64.

Source audio is MP3 at a constant bit rate, in which every browser seeks to exact positions. Target
speech is Opus in Ogg, which takes two thirds of the bytes, or MP3 where libsndfile has no Opus.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from zoo.base.disk.tar_members import last_change
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.formats.speech import target_file
from zoo.report.payload import talks_in_order
from zoo.runs.rows.row import Row
from zoo.runs.rows.streams import ReportStream

# On libsndfile's scale, 0.9 is MP3 at a constant 24 kbit/s for 16 kHz speech, and 0.95 is Opus at
# about 16 kbit/s.
_MP3 = {"format": "MP3", "bitrate_mode": "CONSTANT", "compression_level": 0.9}
_OPUS = {"format": "OGG", "subtype": "OPUS", "compression_level": 0.95}
_BASE64 = 4 / 3  # characters per byte
_MP3_BYTES_PER_SECOND = 24_000 / 8
_OPUS_BYTES_PER_SECOND = 16_000 / 8
_ELEMENT_BYTES = 120  # upper bound of the script element around a sound
_KEPT_SOUNDS = 256  # a report is written several times during an evaluation, with the same sounds


@dataclass(frozen=True, slots=True)
class Sound:
    """Encoded audio.

    Attributes:
        type: media type.
        text: the file in base64.
    """

    type: str
    text: str

    @property
    def size(self) -> int:
        """Upper bound of the bytes that the sound takes in the page."""
        return len(self.text) + _ELEMENT_BYTES


def source_sounds(
    streams: Sequence[ReportStream], *, budget: float, talks: int | None = None
) -> dict[str, Sound]:
    """Encode the source audio of the talks that fit.

    Args:
        streams: streams of the report.
        budget: maximum size of all sounds in bytes.
        talks: number of talks, from the first talk on, whose audio is included (None: all).

    Returns:
        The sounds by id of their element, which has the index of the talk.

    Raises:
        ZooError: audio cannot be read.
    """
    sounds: dict[str, Sound] = {}
    for place, talk in enumerate(talks_in_order(streams)[:talks]):
        expected = talk.duration * _MP3_BYTES_PER_SECOND * _BASE64
        if talk.audio is None or expected > budget:
            continue
        sound = _encoded(
            talk.audio, last_change(talk.audio), talk.offset, talk.duration, opus=False
        )
        if sound.size <= budget:
            sounds[f"audio-{place}"] = sound
            budget -= sound.size
    return sounds


def excerpt(path: Path, start: Seconds, duration: Seconds) -> Sound:
    """Encode a part of an audio file.

    Args:
        path: audio file.
        start: start of the part in seconds.
        duration: duration of the part in seconds.

    Raises:
        ZooError: audio cannot be read.
    """
    return _encoded(path, last_change(path), start, duration, opus=False)


def speech_sounds(
    rows: Sequence[Row], streams: Sequence[ReportStream], folder: Path, *, budget: float
) -> dict[str, Sound]:
    """Encode the target speech of the streams that fit and have a wave file beside their log.

    Args:
        rows: rows of the report.
        streams: streams of the rows.
        folder: folder of the report, to which the paths of the logs are relative.
        budget: maximum size of all sounds in bytes.

    Returns:
        The sounds by id of their element, which has the index of the stream.
    """
    sounds: dict[str, Sound] = {}
    for place, stream in enumerate(streams):
        if not stream.instance.speech:
            continue
        path = folder / Path(rows[stream.row].instances).parent / target_file(stream.instance.talk)
        if not path.is_file():
            continue
        if stream.instance.source_length * _OPUS_BYTES_PER_SECOND * _BASE64 > budget:
            continue
        sound = _encoded(path, path.stat().st_mtime_ns, 0.0, None, opus=has_opus())
        if sound.size <= budget:
            sounds[f"speech-{place}"] = sound
            budget -= sound.size
    return sounds


def has_opus() -> bool:
    """Return whether libsndfile writes Opus (version 1.0.29 or newer, built with it)."""
    import soundfile  # a slow import, which a report without audio does not need

    return "OPUS" in soundfile.available_subtypes("OGG")


@lru_cache(maxsize=_KEPT_SOUNDS)
def _encoded(
    path: Path, changed: int, start: Seconds, duration: Seconds | None, *, opus: bool
) -> Sound:
    """Return a part of an audio file, encoded.

    Args:
        path: audio file.
        changed: time of its last change in nanoseconds, so that a changed file is read again.
        start: start of the part in seconds.
        duration: duration of the part in seconds; None: the rest of the file.
        opus: whether the sound is Opus in Ogg; otherwise MP3.

    Raises:
        ZooError: audio cannot be read.
    """
    # slow imports, which a report without audio does not need
    import soundfile

    from zoo.base.audio import files as audio

    samples = audio.load(path, start=start, duration=duration).numpy()
    options: dict[str, Any] = _OPUS if opus else _MP3
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, SAMPLE_RATE, **options)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Sound("audio/ogg" if opus else "audio/mpeg", text)
