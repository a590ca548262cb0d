"""SimulEval's ``instances.log``: one JSON line per stream, times in milliseconds.

FBK's ``stream_laal.py`` and OmniSTEval read it too. Further keys of ours (talk, text, chunks,
chunk_of, convention, batched, speech) restore a stream under every elapsed convention. The key
events holds transcripts, truncations, flushes and cuts (``zoo.base.types.StreamEvent``), the keys
stages and cpu hold its compute time (``zoo.base.types.StageTimes``).

A line of speech output (``SpeechOutputInstance``) names a wave file and has no text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import bounded_whole
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import ChunkTime, Instance, Seconds, StageTimes, StreamEvent
from zoo.formats.checks import check_stream, read_event, reading
from zoo.formats.speech import read_speech, read_wave, speech_record
from zoo.formats.text import MS, Line, Record, json_lines, milliseconds, recording_names
from zoo.streaming.elapsed import with_convention

REQUIRED = ("prediction", "delays", "source_length")


def write_log(path: Path, instances: Iterable[Instance]) -> None:
    """Write a log whose elapsed times follow SimulEval's convention (cumulative).

    An instance without chunk times keeps its own convention. The samples of target speech are files
    beside the log (``speech.write_speech``); the key ``speech`` of a stream holds the times and
    lengths of its pieces.
    """
    write_text(path, json_lines(map(_record, instances)))


def write_config(folder: Path, *, speech: bool) -> None:
    """Write ``config.yaml``, which ``simuleval --score-only`` reads beside a log.

    Args:
        folder: Folder of the log.
        speech: Whether the log is one of speech output.
    """
    target = "speech" if speech else "text"
    write_text(folder / "config.yaml", f"source_type: speech\ntarget_type: {target}\n")


def _record(instance: Instance) -> Record:
    logged = with_convention(instance, "cumulative")
    prediction = ("" if instance.unit == "char" else " ").join(instance.units)
    record: Record = {
        "index": instance.index,
        "prediction": prediction,
        "delays": milliseconds(instance.delays),
        "elapsed": milliseconds(logged.elapsed),
        "prediction_length": len(instance.units),
        "reference": instance.reference,
        "source": [f"{instance.talk}.wav"],
        "source_length": milliseconds([instance.source_length])[0],
        "talk": instance.talk,
        "convention": logged.convention,
        "batched": instance.batched,
    }

    if instance.text != prediction:
        record["text"] = instance.text
    if instance.chunks:
        record["chunks"] = [
            milliseconds([chunk.arrival, chunk.compute]) for chunk in instance.chunks
        ]
        record["chunk_of"] = list(instance.chunk_indices)
    if instance.stages is not None:
        seconds = instance.stages.seconds
        record["stages"] = dict(zip(seconds, milliseconds(seconds.values()), strict=True))
        record["cpu"] = milliseconds([instance.stages.cpu])[0]
    if instance.speech:
        record["speech"] = speech_record(logged)
    if instance.events:
        record["events"] = [_event_record(event) for event in instance.events]
    if instance.recording_end is not None:
        record["time_to_recording_end"] = milliseconds([instance.recording_end])[0]
    if instance.repaired:
        record["repaired"] = True
    return record


def _event_record(event: StreamEvent) -> Record:
    """Chunk, kind and source time of an event, and its other fields that are set."""
    others = {name: value for name, value in asdict(event).items() if value}
    return {"chunk": event.chunk} | others | {"at": milliseconds([event.at])[0]}


def instances(
    records: Sequence[Line], path: Path, language: Language, *, format: str = "simuleval"
) -> list[Instance]:
    """One instance per line; a line without index has its line number.

    Args:
        records: lines of the file.
        path: the file, for messages and for speech files beside it.
        language: target language.
        format: format of the file, for messages.

    Raises:
        ZooError: a stream lacks a field, has a field of another type, or has another number of
            delays than of units.
    """
    streams: list[Instance] = []
    names = recording_names([_source(record) for record in records])
    for number, (record, name) in enumerate(zip(records, names, strict=True)):
        with reading(path, record.line, format):
            streams.append(_instance(record, number, name, path, language))
    return streams


def _instance(record: Line, number: int, name: str, path: Path, language: Language) -> Instance:
    """The stream of one line.

    Elapsed times that are missing, empty or all 0 count as not measured.

    Args:
        record: the line.
        number: index of a stream without index.
        name: name of the recording, or "" (text input).
        path: the file, for messages and for speech files beside it.
        language: target language.
    """
    index = bounded_whole(record.get("index", number))
    talk = str(record["talk"]) if "talk" in record else name or str(index)
    where = f"{path}, line {record.line}: talk {talk!r}"
    for key in REQUIRED:
        if key not in record:
            raise ZooError(f"{where} has no {key!r}; is this a SimulEval instances.log?")
    if "intervals" in record:
        return _spoken(record, index, talk, path, language)

    delays = _seconds(record, "delays", where)
    elapsed = _seconds(record, "elapsed", where)
    units, positions = _units(record["prediction"], len(delays), where, language)
    if elapsed and len(elapsed) != len(delays):
        raise ZooError(f"{where} has {len(delays)} delays but {len(elapsed)} elapsed times.")

    events = tuple(
        read_event({**event, "at": event["at"] / MS}) for event in record.get("events", ())
    )
    end = record.get("time_to_recording_end")
    instance = Instance(
        index=index,
        talk=talk,
        source_length=float(record["source_length"]) / MS,
        text=record.get("text", record["prediction"].strip()),
        units=tuple(units),
        delays=tuple(delays[position] for position in positions),
        elapsed=tuple(elapsed[position] for position in positions) if any(elapsed) else (),
        reference=record.get("reference") or "",
        unit=language.unit,
        convention=record.get("convention", "cumulative"),
        chunk_indices=tuple(record.get("chunk_of", ())),
        chunks=tuple(
            ChunkTime(arrival / MS, compute / MS) for arrival, compute in record.get("chunks", ())
        ),
        speech=read_speech(record.get("speech", ()), talk=talk, folder=path.parent),
        batched=record.get("batched", False),
        events=events,
        recording_end=None if end is None else float(end) / MS,
        repaired=record.get("repaired", False),
        stages=_stages(record),
    )
    is_segment = instance.repaired
    check_stream(instance, where, forward=not is_segment, whole=not is_segment)
    return with_convention(instance, "queue")


def _spoken(record: Line, index: int, talk: str, path: Path, language: Language) -> Instance:
    """The stream of a line of speech output, which has a wave file instead of words.

    Args:
        record: the line.
        index: index of the stream.
        talk: name of the recording.
        path: the log.
        language: target language.
    """
    where = f"{path}, line {record.line}: talk {talk!r}"
    instance = Instance(
        index=index,
        talk=talk,
        source_length=float(record["source_length"]) / MS,
        text="",
        units=(),
        delays=(),
        elapsed=(),
        reference=record.get("reference") or "",
        unit=language.unit,
        speech=read_wave(record, log=path, where=where),
    )
    check_stream(instance, where, forward=True)
    return instance


def _stages(record: Line) -> StageTimes | None:
    """The compute time by stage, which only our logs have."""
    if "stages" not in record:
        return None
    seconds = {str(name): float(time) / MS for name, time in record["stages"].items()}
    return StageTimes(seconds, float(record["cpu"]) / MS)


def _source(record: Line) -> str:
    """The path of the recording, or "" if there is none (text input)."""
    source = record.get("source")
    if isinstance(source, list) and source:
        return str(source[0])
    return source if isinstance(source, str) and " " not in source else ""


def _seconds(record: Line, key: str, where: str) -> list[Seconds]:
    try:
        times = record.get(key) or ()
        if any(isinstance(time, bool) for time in times):
            raise TypeError("true and false are no numbers")
        return [float(time) / MS for time in times]
    except (TypeError, ValueError) as error:
        raise ZooError(f"{where} has {key!r} that are not a list of numbers.") from error


def _units(
    prediction: object, delays: int, where: str, language: Language
) -> tuple[list[str], Sequence[int]]:
    """Units and the positions of their delays.

    Some tools give spaces between characters a delay, others do not.
    """
    if not isinstance(prediction, str):
        raise ZooError(f"{where} has a prediction that is not text.")
    units = language.units(prediction)
    if len(units) == delays:
        return units, range(delays)
    for text in (prediction, prediction.strip()):
        if language.unit == "char" and len(text) == delays:
            positions = [position for position, char in enumerate(text) if not char.isspace()]
            return [text[position] for position in positions], positions
    raise ZooError(f"{where} has {len(units)} {language.unit}s but {delays} delays.")
