"""Writes and reads logs of streams: SimulEval's ``instances.log``, OmniSTEval's segments, simulstream's JSONL.

Files hold milliseconds (simulstream: seconds), Instances seconds. Knows no metric.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from zoo.errors import ZooError, unknown
from zoo.files import write_text
from zoo.languages import Language
from zoo.metrics.elapsed import under
from zoo.report.reference_files import recording_name
from zoo.report.simulstream_log import Detokenizer, read_simulstream
from zoo.report.speech_files import MS, milliseconds, read_speech, speech_record
from zoo.types import ChunkTime, Instance, Seconds

LogFormat = Literal["simuleval", "omnisteval", "simulstream"]


def write_log(path: Path, instances: Iterable[Instance]) -> None:
    """Write JSON lines that SimulEval, FBK's stream_laal.py and OmniSTEval read.

    ``elapsed`` is SimulEval's (cumulative) wherever chunk times allow it. Our own keys (talk, text, chunks, chunk_of,
    batched) let :func:`read_log` restore the stream under every convention. The speech of a speaking system lies in
    files beside the log (``speech_files.write_speech``); ``speech`` says which part of them was said when.
    """
    lines = [json.dumps(_record(instance), ensure_ascii=False) + "\n" for instance in instances]
    write_text(path, "".join(lines))


def _record(instance: Instance) -> dict[str, Any]:
    logged = under(instance, "cumulative")
    prediction = ("" if instance.unit == "char" else " ").join(instance.units)
    record: dict[str, Any] = {
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
        record["chunk_of"] = list(instance.chunk_of)
    if instance.speech:
        record["speech"] = speech_record(logged)
    return record


def read_log(
    path: Path,
    *,
    language: Language,
    format: LogFormat = "simuleval",
    detokenize: Detokenizer | None = None,
) -> list[Instance]:
    """Read a log; streams come in the order of their index.

    language: the target (its unit decides what a delay belongs to). detokenize: how simulstream's tokens join (default:
    by SentencePiece's mark, else by the language). Raises ZooError naming the file and the talk for what does not fit.
    """
    if format not in get_args(LogFormat):
        raise unknown("log format", format, get_args(LogFormat))
    records = list(_records(path))
    try:
        if format == "simulstream":
            return read_simulstream(records, path, language=language, detokenize=detokenize)
        reader = _simuleval if format == "simuleval" else _omnisteval
        instances = [
            reader({"index": line, **record}, path, language) for line, record in enumerate(records)
        ]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ZooError(f"{path} is not a log in the format {format!r} ({error!r}).") from error
    indices = [instance.index for instance in instances]
    twice = next(
        (index for position, index in enumerate(indices) if index in indices[:position]), None
    )
    if twice is not None:
        raise ZooError(f"{path} has index {twice} twice: two runs were written to one log.")
    return sorted(instances, key=lambda instance: instance.index)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise ZooError(f"There is no log {path}.")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ZooError(f"{path} is not a text file in UTF-8.") from error
    found = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ZooError(f"{path}, line {number}, is not JSON: {error.msg}.") from error
        if not isinstance(record, dict):
            raise ZooError(f"{path}, line {number}, is not a JSON object.")
        found = True
        yield record
    if not found:
        raise ZooError(f"{path} is empty.")


def _simuleval(record: dict[str, Any], path: Path, language: Language) -> Instance:
    """One line of SimulEval's log. A log without elapsed times (missing, empty or all 0) has none."""
    talk = _talk(record)
    for key in ("prediction", "delays", "source_length"):
        if key not in record:
            raise ZooError(
                f"{path}: talk {talk!r} has no {key!r}; is this a SimulEval instances.log?"
            )
    if "intervals" in record:
        raise ZooError(
            f"{path}: talk {talk!r} is SimulEval's line for speech output, which has a wave where the written words "
            "and the delay of each should be; name the log of the text, which zoo writes above the folder 'speech'."
        )
    delays = _seconds(record, "delays", path, talk)
    elapsed = _seconds(record, "elapsed", path, talk)
    units, kept = _units(record["prediction"], len(delays), path, talk, language)
    if elapsed and len(elapsed) != len(delays):
        raise ZooError(
            f"{path}: talk {talk!r} has {len(delays)} delays but {len(elapsed)} elapsed times."
        )
    instance = Instance(
        index=int(record["index"]),
        talk=talk,
        source_length=float(record["source_length"]) / MS,
        text=record.get("text", record["prediction"].strip()),
        units=tuple(units),
        delays=tuple(delays[position] for position in kept),
        elapsed=tuple(elapsed[position] for position in kept) if any(elapsed) else (),
        reference=record.get("reference") or "",
        unit=language.unit,
        convention=record.get("convention", "cumulative"),
        chunk_of=tuple(record.get("chunk_of", ())),
        chunks=tuple(
            ChunkTime(arrival / MS, compute / MS) for arrival, compute in record.get("chunks", ())
        ),
        speech=read_speech(record.get("speech", ()), talk=talk, folder=path.parent),
        batched=record.get("batched", False),
    )
    return under(instance, "queue")


def _omnisteval(record: dict[str, Any], path: Path, language: Language) -> Instance:
    """One line of ``instances.resegmented.jsonl``: a segment, with times from its start."""
    talk = f"{record.get('docid', 0)}-{record.get('segid', record['index'])}"
    if record.get("prediction") and "emission_cu" not in record:
        raise ZooError(
            f"{path}: segment {talk} has no 'emission_cu'; is this an OmniSTEval instances.resegmented.jsonl?"
        )
    times = {"delays": record.get("emission_cu", []), "elapsed": record.get("emission_ca", [])}
    return _simuleval({**record, "talk": talk, **times}, path, language)


def _talk(record: dict[str, Any]) -> str:
    """Our own key, else the recording's name, else (text input has none) the index."""
    if "talk" in record:
        return str(record["talk"])
    source = record.get("source")
    if isinstance(source, list) and source:
        return recording_name(str(source[0]))
    return (
        recording_name(source)
        if isinstance(source, str) and source and " " not in source
        else str(record["index"])
    )


def _seconds(record: dict[str, Any], key: str, path: Path, talk: str) -> list[Seconds]:
    try:
        return [float(time) / MS for time in record.get(key) or ()]
    except (TypeError, ValueError) as error:
        raise ZooError(
            f"{path}: talk {talk!r} has {key!r} that are not a list of numbers."
        ) from error


def _units(
    prediction: object, delays: int, path: Path, talk: str, language: Language
) -> tuple[list[str], Sequence[int]]:
    """Units and the positions of their delays. Tools differ in whether spaces between characters have a delay."""
    if not isinstance(prediction, str):
        raise ZooError(f"{path}: talk {talk!r} has a prediction that is not text.")
    units = language.units(prediction)
    if len(units) == delays:
        return units, range(delays)
    for text in (prediction, prediction.strip()):
        if language.unit == "char" and len(text) == delays:
            kept = [position for position, char in enumerate(text) if not char.isspace()]
            return [text[position] for position in kept], kept
    raise ZooError(f"{path}: talk {talk!r} has {len(units)} {language.unit}s but {delays} delays.")
