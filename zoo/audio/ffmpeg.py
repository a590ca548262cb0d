"""Audio formats that libsndfile does not read, such as M4A or the sound of a film, through ffmpeg.

ffmpeg is a program of its own and optional; ``zoo/audio/files.py`` reads WAV, FLAC, OGG and MP3
without it.
"""

import shutil
import subprocess
from pathlib import Path

from zoo.disk.files import check_name_is_text
from zoo.errors import ZooError

# Samples as WAV with the rate and the channels of the source; ``files`` resamples and mixes them.
_TO_WAV = ("-map", "0:a:0", "-f", "wav", "-c:a", "pcm_s16le")


def is_readable(path: Path) -> bool:
    """Return whether libsndfile opens a file, whatever its suffix."""
    import soundfile  # a slow import

    try:
        with soundfile.SoundFile(path):
            return True
    except (soundfile.LibsndfileError, OSError):
        return False


def readable(path: Path, folder: Path) -> Path:
    """Return a file that libsndfile reads: ``path`` itself or a copy that ffmpeg decodes.

    Args:
        path: audio file, or a film with sound.
        folder: existing folder for the copy.

    Raises:
        ZooError: neither libsndfile nor ffmpeg reads the file, or ffmpeg is needed and missing.
    """
    import soundfile  # a slow import

    check_name_is_text(path)
    if path.is_file() and path.stat().st_size == 0:
        raise ZooError(f"Audio file {path} is empty.")
    try:
        with soundfile.SoundFile(path):
            return path
    except soundfile.LibsndfileError as error:
        reason = error.error_string.rstrip(".")
    except OSError as error:
        raise ZooError(f"Audio file {path} cannot be read ({error.strerror}).") from error

    program = shutil.which("ffmpeg")
    if program is None:
        raise ZooError(
            f"Audio file {path} is damaged, not audio, or in a format that needs ffmpeg, which is "
            f"not installed ({reason})."
        )
    copy = folder / f"{len(list(folder.iterdir()))}.wav"
    command = [program, "-nostdin", "-v", "error", "-i", str(path.absolute()), *_TO_WAV, str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise ZooError(f"Audio file {path} is damaged or not audio (ffmpeg: {lines[0]}).")
    return copy
