"""Target speech of a log as wave files, and back.

The folder ``speech`` beside a log holds per talk ``<talk>.target.wav``, the target speech on the
time line of the source, and ``<talk>.mix.wav``, with the source on the left channel and the target
on the right. Its ``instances.log`` is SimulEval's for speech output (``SpeechOutputInstance``):
every line names a wave file and has no text.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from zoo.base.disk.files import write_text
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Instance, Samples, SpeechOutput
from zoo.formats.text import MS, Record, json_lines, milliseconds
from zoo.streaming.playback import playback_intervals, start_positions

FOLDER = "speech"
WAVES = "wavs"  # SimulEval's folder of wave files, beside its log
ROUNDING: Samples = 160  # 10 ms: SimulEval rounds every gap of its wave file down
# Letters of all scripts stay: percent-encoded names would be longer than file systems allow.
QUOTED = re.compile(r"[^\w .,+=@-]")


def target_file(talk: str) -> str:
    """Path of a talk's target speech relative to the log's folder, unique for any talk name."""
    return f"{FOLDER}/{_quoted(talk)}.target.wav"


def mix_file(talk: str) -> str:
    """Path of the stereo file of source and target speech relative to the log's folder."""
    return f"{FOLDER}/{_quoted(talk)}.mix.wav"


def _quoted(talk: str) -> str:
    return QUOTED.sub(lambda sign: quote(sign[0], safe=""), talk)


def write_speech(folder: Path, instances: Sequence[Instance], talks: Sequence[Talk]) -> None:
    """Write the speech files of a log, or none where no instance has speech.

    Every piece of speech starts at its ideal (computation-unaware) time. A talk without audio has
    no mix.

    Args:
        folder: folder of the log; the files are in ``speech`` below it.
        instances: streams of the log.
        talks: talk of each stream.

    Raises:
        ZooError: source audio cannot be read.
    """
    if not any(instance.speech for instance in instances):
        return

    # imported here, because the import is slow and a log of text does not need it
    from zoo.base.audio import files as audio
    from zoo.streaming.waveforms import mix, timeline

    (folder / FOLDER).mkdir(exist_ok=True)
    for instance, talk in zip(instances, talks, strict=True):
        target = timeline(instance)
        audio.write(folder / target_file(instance.talk), target)
        if talk.audio is not None:
            source = audio.load(talk.file, start=talk.offset, duration=talk.duration)
            audio.write(folder / mix_file(instance.talk), mix(source, target))
    write_text(folder / FOLDER / "instances.log", json_lines(map(_simuleval, instances)))


def _simuleval(instance: Instance) -> Record:
    """SimulEval's line for speech output: milliseconds, but ``prediction_length`` in seconds."""
    played = playback_intervals(instance.speech)
    end = sum(played[-1]) if played else 0.0
    return {
        "index": instance.index,
        "prediction": Path(target_file(instance.talk)).name,
        "delays": milliseconds([spoken.delay for spoken in instance.speech]),
        "durations": milliseconds([spoken.duration for spoken in instance.speech]),
        "prediction_offset": 0.0,  # the file begins with the source
        "elapsed": milliseconds([spoken.elapsed for spoken in instance.speech]),
        "intervals": [milliseconds(piece) for piece in played],
        "prediction_length": max(end, instance.source_length),
        "source_length": milliseconds([instance.source_length])[0],
        "reference": instance.reference,
        "source": [f"{instance.talk}.wav"],
    }


def speech_record(instance: Instance) -> list[Record]:
    """Times, lengths and texts of the pieces of speech, for ``read_speech``."""
    return [
        {
            "delay": milliseconds([spoken.delay])[0],
            "elapsed": milliseconds([spoken.elapsed])[0],
            "chunk": spoken.chunk,
            "samples": spoken.samples.numel(),
            "text": spoken.text,
        }
        for spoken in instance.speech
    ]


def read_speech(record: Sequence[Record], *, talk: str, folder: Path) -> tuple[SpeechOutput, ...]:
    """Restore the pieces of a talk's target speech.

    Args:
        record: pieces as ``speech_record`` gives them.
        talk: name of the talk.
        folder: folder of the log.

    Raises:
        ZooError: the wave file is missing or shorter than the record.
    """
    if not record:
        return ()
    path = folder / target_file(talk)
    if not path.is_file():
        raise ZooError(
            f"The log has target speech for talk {talk!r}, but {path} is missing; "
            f"keep the folder {FOLDER!r} beside its log."
        )

    from zoo.base.audio import files as audio  # a slow import, which a log of text does not need

    wave = audio.load(path)
    silence = wave.new_zeros(1)  # its index is known once all lengths are known
    pieces = [
        SpeechOutput(
            silence.expand(piece["samples"]),
            piece["delay"] / MS,
            piece["elapsed"] / MS,
            piece["chunk"],
            piece["text"],
        )
        for piece in record
    ]
    spans = [
        (begin, begin + piece.samples.numel())
        for begin, piece in zip(start_positions(pieces), pieces, strict=True)
    ]
    if spans[-1][1] > wave.numel():
        raise ZooError(f"{path} is shorter than the target speech of talk {talk!r} in its log.")
    return tuple(
        replace(piece, samples=wave[slice(*span)])
        for piece, span in zip(pieces, spans, strict=True)
    )


def read_wave(record: Record, *, log: Path, where: str) -> tuple[SpeechOutput, ...]:
    """Restore the pieces of a line of SimulEval's speech output from its wave file.

    The file begins with the first piece (SimulEval) or with the source (``write_speech``), which
    ``prediction_offset`` tells, and may have been moved with its log. Texts and elapsed times are
    unknown; the latter equal the delays.

    Args:
        record: the line, with times in milliseconds.
        log: the log.
        where: file, line and talk, for the messages.

    Raises:
        ZooError: the wave file is missing or shorter than the pieces.
    """
    if not record["intervals"]:
        return ()
    named = Path(str(record["prediction"]))
    places = [log.parent / named.name, log.parent / WAVES / named.name, named]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise ZooError(f"{where} names the wave file {named}, which is missing.")

    from zoo.base.audio import files as audio  # a slow import, which a log of text does not need

    wave = audio.load(path)
    first = float(record["prediction_offset"])
    pieces: list[SpeechOutput] = []
    for delay, (start, duration) in zip(record["delays"], record["intervals"], strict=True):
        begin = round((start - first) / MS * SAMPLE_RATE)
        end = begin + round(duration / MS * SAMPLE_RATE)
        if begin < 0 or end > wave.numel() + ROUNDING:
            raise ZooError(f"{where} has speech that is outside of its wave file {path}.")
        moment = float(delay) / MS
        pieces.append(SpeechOutput(wave[begin:end], moment, moment, len(pieces), ""))
    return tuple(pieces)


def without_samples(instance: Instance) -> Instance:
    """The same stream with silence for its samples, which takes no memory."""
    silent = [
        replace(spoken, samples=spoken.samples.new_zeros(1).expand(spoken.samples.numel()))
        for spoken in instance.speech
    ]
    return replace(instance, speech=tuple(silent))
