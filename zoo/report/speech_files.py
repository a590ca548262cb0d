"""Target speech of a row as files that anybody can play, and back. Knows no metric and no page.

Beside a row's ``instances.log``, in the folder ``speech``, per talk: ``<talk>.target.wav`` on the time line of the
source and ``<talk>.mix.wav`` with the source on the left and the target on the right; and an ``instances.log`` as
SimulEval writes it for speech output (``SpeechOutputInstance``), of which each line has a wave and no text.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from torch import Tensor

from zoo import audio
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.files import write_text
from zoo.streaming.playback import begins, intervals, mix, timeline
from zoo.types import Instance, Samples, Seconds, Spoken

FOLDER = "speech"
QUOTED = re.compile(
    r"[^\w .,+=@-]"
)  # letters of all scripts stay: quoted, they would make names that no disk takes
MS = 1000.0


def target_file(talk: str) -> str:
    """Path of a talk's target speech, from the folder of the log; any name of a talk gives a file of its own."""
    return f"{FOLDER}/{_quoted(talk)}.target.wav"


def mix_file(talk: str) -> str:
    """Path of source and target together, from the folder of the log."""
    return f"{FOLDER}/{_quoted(talk)}.mix.wav"


def _quoted(talk: str) -> str:
    return QUOTED.sub(lambda sign: quote(sign[0], safe=""), talk)


def write_speech(folder: Path, instances: Sequence[Instance], talks: Sequence[Talk]) -> None:
    """Write what was said for each of ``talks`` below ``folder``: nothing where nothing was said in any.

    Speech starts at its ideal moments. A talk without audio has no mix. Raises ZooError for audio that cannot be read.
    """
    if not any(instance.speech for instance in instances):
        return
    (folder / FOLDER).mkdir(exist_ok=True)
    for instance, talk in zip(instances, talks, strict=True):
        target = timeline(instance)
        audio.write(folder / target_file(instance.talk), target)
        if talk.audio is not None:
            source = audio.load(talk.file, start=talk.offset, duration=talk.duration)
            audio.write(folder / mix_file(instance.talk), mix(source, target))
    lines = [json.dumps(_simuleval(instance), ensure_ascii=False) + "\n" for instance in instances]
    write_text(folder / FOLDER / "instances.log", "".join(lines))


def _simuleval(instance: Instance) -> dict[str, Any]:
    """SimulEval's line for speech output: milliseconds, but ``prediction_length`` in seconds, as it has it."""
    played = intervals(instance.speech)
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


def speech_record(instance: Instance) -> list[dict[str, Any]]:
    """What :func:`read_speech` needs beside the file to know the pieces of speech again."""
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


def read_speech(record: Sequence[dict[str, Any]], *, talk: str, folder: Path) -> tuple[Spoken, ...]:
    """Speech of one talk, its samples from the file in ``folder``. Raises ZooError where file and record disagree."""
    if not record:
        return ()
    path = folder / target_file(talk)
    if not path.is_file():
        raise ZooError(
            f"Talk {talk!r} was spoken, but {path} is not there; keep the folder {FOLDER!r} beside its log."
        )
    wave = audio.load(path)
    pieces = [
        Spoken(
            _silence(piece["samples"]),
            piece["delay"] / MS,
            piece["elapsed"] / MS,
            piece["chunk"],
            piece["text"],
        )
        for piece in record
    ]
    places = [
        (begin, begin + piece.samples.numel())
        for begin, piece in zip(begins(pieces), pieces, strict=True)
    ]
    if places[-1][1] > wave.numel():
        raise ZooError(f"{path} is shorter than the speech that its log tells of talk {talk!r}.")
    return tuple(
        replace(piece, samples=wave[slice(*place)])
        for piece, place in zip(pieces, places, strict=True)
    )


def unloaded(instance: Instance) -> Instance:
    """The same stream without its sound in memory: as much silence, which takes none. For what shows only the times."""
    silent = [
        replace(spoken, samples=_silence(spoken.samples.numel())) for spoken in instance.speech
    ]
    return replace(instance, speech=tuple(silent))


def _silence(samples: Samples) -> Tensor:
    return torch.zeros(1).expand(samples)


def milliseconds(times: Iterable[Seconds]) -> list[float]:
    """Seconds as log files have them."""
    return [round(time * MS, 6) for time in times]
