"""Reads simulstream's JSONL: the metadata of each client, then one line per chunk of audio.

A chunk's line has the emitted and the deleted tokens. Times are seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from zoo.errors import ZooError
from zoo.formats.checks import check_stream
from zoo.formats.text import Line, recording_name
from zoo.languages import Language
from zoo.streaming.elapsed import with_convention
from zoo.types import ChunkTime, Instance

SPACE_MARK = "\u2581"  # SentencePiece


@dataclass(slots=True)
class Stream:
    """Output of one client so far.

    Attributes:
        talk: name of its recording.
        tokens: emitted and not deleted.
        units: words (or characters) of ``tokens``.
        changed_at: per unit, index of the chunk that last changed it.
        chunks: times of the chunks.
    """

    talk: str
    tokens: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    changed_at: list[int] = field(default_factory=list)
    chunks: list[ChunkTime] = field(default_factory=list)


def instances(records: Sequence[Line], path: Path, language: Language) -> list[Instance]:
    """One instance per recording, with chunk times.

    The delay of a unit is that of the chunk that last changed it.

    Args:
        records: lines of the file.
        path: the file, for messages.
        language: target language.

    Raises:
        ZooError: a recording occurs twice or goes back in time (the tool appends to its log), or
            tokens are deleted that were not emitted.
    """
    streams: dict[object, Stream] = {}
    for record in records:
        if "metadata" in record:
            talk = recording_name(str(record["metadata"]["wav_name"]))
            if record["id"] in streams or talk in {stream.talk for stream in streams.values()}:
                raise ZooError(f"{path} has talk {talk!r} twice: two runs were written to one log.")
            streams[record["id"]] = Stream(talk)
        elif "id" in record:
            if record["id"] not in streams:
                raise ZooError(f"{path} has output of client {record['id']!r} before its metadata.")
            _advance(streams[record["id"]], record, path, language)
    if not streams:
        raise ZooError(f"{path} has no line with metadata; is this a simulstream log?")
    found = [_instance(index, stream, language) for index, stream in enumerate(streams.values())]
    for instance in found:
        check_stream(instance, f"{path}: talk {instance.talk!r}", forward=False)
    return found


def _advance(stream: Stream, record: Line, path: Path, language: Language) -> None:
    where = f"{path}, line {record.line}: talk {stream.talk!r}"
    arrival, compute = (float(record[key]) for key in ("total_audio_processed", "computation_time"))
    if not (0 <= arrival < inf and 0 <= compute < inf):
        raise ZooError(
            f"{where} has {arrival:g} s of audio and {compute:g} s of computation; they must be at "
            "least 0 and finite."
        )
    if stream.chunks and arrival < stream.chunks[-1].arrival:
        raise ZooError(f"{where} goes back in time: two runs were written to one log.")
    stream.chunks.append(ChunkTime(arrival, compute))

    if deleted := record.get("deleted_tokens") or []:
        if stream.tokens[-len(deleted) :] != deleted:
            raise ZooError(f"{where} deletes tokens at {arrival:g} s that it did not emit.")
        del stream.tokens[-len(deleted) :]
        _update_units(stream, language)
    stream.tokens.extend(record.get("generated_tokens") or [])
    _update_units(stream, language)


def _update_units(stream: Stream, language: Language) -> None:
    """Derive the units from the tokens.

    New units, and a last word that changed, belong to the current chunk.
    """
    units = _units(_text(stream.tokens, language), language)
    chunk = len(stream.chunks) - 1
    kept = min(len(units), len(stream.units))
    changed_at = stream.changed_at[:kept] + [chunk] * (len(units) - kept)
    if language.unit == "word" and kept and units[kept - 1] != stream.units[kept - 1]:
        changed_at[kept - 1] = chunk
    stream.units, stream.changed_at = units, changed_at


def _text(tokens: Sequence[str], language: Language) -> str:
    """Tokens joined by SentencePiece's mark if any token has one, else by the language's rule."""
    if any(SPACE_MARK in token for token in tokens):
        return "".join(tokens).replace(SPACE_MARK, " ").strip()
    return language.join(tokens)


def _units(text: str, language: Language) -> list[str]:
    """Words, or all characters: simulstream counts spaces between characters."""
    return list(text) if language.unit == "char" else [word for word in text.split(" ") if word]


def _instance(index: int, stream: Stream, language: Language) -> Instance:
    instance = Instance(
        index=index,
        talk=stream.talk,
        source_length=stream.chunks[-1].arrival if stream.chunks else 0.0,
        text=_text(stream.tokens, language),
        units=tuple(stream.units),
        delays=tuple(stream.chunks[chunk].arrival for chunk in stream.changed_at),
        elapsed=(),
        unit=language.unit,
        chunk_indices=tuple(stream.changed_at),
        chunks=tuple(stream.chunks),
    )
    return with_convention(instance, "queue")
