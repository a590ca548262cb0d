"""Talks, files and arrays as streams of audio chunks."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from zoo.base.audio import files as audio
from zoo.base.audio.arrays import Waveform, to_mono
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.talks import Talk, without_references
from zoo.base.types import SAMPLE_RATE, Samples, Seconds
from zoo.streaming.simulate import Source

WARM_UP: Seconds = 4.0  # longest audio of a warm-up
DAY: Seconds = 24 * 3600.0  # live audio is checked as a talk of this duration
ARRAY, LIVE = "audio", "live"  # names of the talks of an array and of live audio
Recording = str | Path | Talk | Waveform


def sources(
    talks: Iterable[Talk], target: Language, *, chunk_samples: Samples | None
) -> Iterator[Source]:
    """Yield one stream per talk, as ``source`` does."""
    return (source(talk, target, chunk_samples=chunk_samples) for talk in talks)


def source(
    talk: Talk, target: Language, *, chunk_samples: Samples | None, index: int | None = None
) -> Source:
    """Create the stream of a talk.

    Args:
        talk: Talk with audio.
        target: Language of the reference. A segment without translation adds nothing to it.
        chunk_samples: Number of samples per chunk. None: the whole talk, for offline decoding.
        index: Position of the stream in the evaluation.
    """
    texts = [
        segment.targets[target.code].text
        for segment in talk.segments
        if target.code in segment.targets
    ]
    return Source(
        talk.name,
        talk_chunks(talk, chunk_samples),
        reference=target.separator.join(texts),
        segments=[(segment.offset, segment.end) for segment in talk.segments],
        index=index,
        excerpt=talk.excerpt,
    )


def beginning(talk: Talk, target: Language, *, chunk_samples: Samples) -> Source:
    """Create the stream of the first seconds of a talk, for ``warm_up``; see ``source``."""
    first = replace(talk, duration=min(WARM_UP, talk.duration))
    return source(first, target, chunk_samples=chunk_samples)


def talk_chunks(talk: Talk, chunk_samples: Samples | None) -> Iterator[Tensor]:
    """Read a talk's audio and yield it in chunks (n,).

    Each chunk is a copy, so that it does not keep the whole talk in memory.
    """
    samples = audio.load(talk.file, start=talk.offset, duration=talk.duration)
    size = max(1, samples.numel()) if chunk_samples is None else chunk_samples
    for start in range(0, samples.numel(), size):
        yield samples[start : start + size].clone()


def open_recording(
    recording: Recording, *, sample_rate: int | None, source_language: str
) -> tuple[Talk, Tensor]:
    """Read a recording of any kind.

    Args:
        recording: an audio file or a film with sound, a talk, or an array of samples.
        sample_rate: samples per second of an array; None for a file or a talk.
        source_language: code of the language that the system receives.

    Returns:
        The talk and its (n,) samples at 16 kHz. A file or an array is one segment without text.

    Raises:
        ZooError: the audio cannot be read, is empty or in another language, or the sample rate is
            missing or wrong.
    """
    if not isinstance(recording, str | Path | Talk):
        samples = to_mono(recording, sample_rate)
        seconds = samples.numel() / SAMPLE_RATE
        return without_references(ARRAY, None, seconds, source_language), samples
    if sample_rate is not None:
        raise ZooError("A file has its own sample rate; leave sample_rate out.")
    if not isinstance(recording, Talk):
        return talk_of_file(Path(recording), source_language=source_language)
    if recording.source_language != source_language:
        raise ZooError(
            f"Talk {recording.name!r} is spoken in {recording.source_language!r}, but the system "
            f"translates from {source_language!r}."
        )
    file, start, duration = recording.file, recording.offset, recording.duration
    return recording, audio.load(file, start=start, duration=duration)


def talk_of_file(
    path: Path, *, source_language: str, name: str | None = None
) -> tuple[Talk, Tensor]:
    """Read an audio file as a talk without references.

    Args:
        path: audio file, or a film with sound.
        source_language: code of the language that is spoken.
        name: name of the talk; None: that of the file without its suffix.

    Returns:
        The talk and its (n,) samples at 16 kHz.

    Raises:
        ZooError: there is no such file, it cannot be read, or it has no samples.
    """
    if path.is_dir():
        raise ZooError(f"{path} is a folder; name one audio file.")
    if not path.exists():
        raise ZooError(f"There is no audio file {path}.")
    samples = audio.load(path)
    audio.warn_of_silence(samples, path)
    seconds = samples.numel() / SAMPLE_RATE
    return without_references(name or path.stem, path, seconds, source_language), samples
