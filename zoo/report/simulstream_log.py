"""Reads simulstream's JSONL: tokens written and taken back, line by line. Knows no metric and no SimulEval."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.errors import ZooError
from zoo.languages import Language
from zoo.metrics.elapsed import under
from zoo.report.reference_files import recording_name
from zoo.types import ChunkTime, Instance

Detokenizer = Callable[[Sequence[str]], str]

SPACE_MARK = "\u2581"  # SentencePiece


@dataclass(slots=True)
class Stream:
    """What one client has said so far. lines: per unit the line that last changed it."""

    talk: str
    tokens: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    chunks: list[ChunkTime] = field(default_factory=list)


def read_simulstream(
    records: Iterable[dict[str, Any]],
    path: Path,
    *,
    language: Language,
    detokenize: Detokenizer | None,
) -> list[Instance]:
    """One Instance per recording, with chunk times. A unit's delay is that of the line that last changed it.

    Raises ZooError where a recording comes twice or goes back in time (the log is opened in append mode), or where
    tokens are taken back that were not written.
    """
    join = detokenize or (lambda tokens: joined(tokens, language=language))
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
            _advance(streams[record["id"]], record, path, language, join)
    if not streams:
        raise ZooError(f"{path} has no line with metadata; is this a simulstream log?")
    return [
        _instance(index, stream, language, join) for index, stream in enumerate(streams.values())
    ]


def joined(tokens: Sequence[str], *, language: Language) -> str:
    """Tokens to text: by SentencePiece's mark if any token has it, else by the language's rule."""
    if any(SPACE_MARK in token for token in tokens):
        return "".join(tokens).replace(SPACE_MARK, " ").strip()
    return language.join(tokens)


def _advance(
    stream: Stream, record: dict[str, Any], path: Path, language: Language, join: Detokenizer
) -> None:
    arrival = float(record["total_audio_processed"])
    if stream.chunks and arrival < stream.chunks[-1].arrival:
        raise ZooError(
            f"{path}: talk {stream.talk!r} goes back in time: two runs were written to one log."
        )
    stream.chunks.append(ChunkTime(arrival, float(record["computation_time"])))
    deleted = record.get("deleted_tokens") or []
    if deleted:
        if stream.tokens[-len(deleted) :] != deleted:
            raise ZooError(
                f"{path}: talk {stream.talk!r} takes back tokens at {arrival:g} s that it did not write."
            )
        del stream.tokens[-len(deleted) :]
        _rewrite(stream, language, join)
    stream.tokens.extend(record.get("generated_tokens") or [])
    _rewrite(stream, language, join)


def _rewrite(stream: Stream, language: Language, join: Detokenizer) -> None:
    """Make the units those of the tokens. Words that are new or whose last word changed belong to the current line."""
    units = _items(join(stream.tokens), language)
    line = len(stream.chunks) - 1
    kept = min(len(units), len(stream.units))
    lines = stream.lines[:kept] + [line] * (len(units) - kept)
    if language.unit == "word" and kept and units[kept - 1] != stream.units[kept - 1]:
        lines[kept - 1] = line
    stream.units, stream.lines = units, lines


def _items(text: str, language: Language) -> list[str]:
    """simulstream counts every character, spaces too."""
    return list(text) if language.unit == "char" else [word for word in text.split(" ") if word]


def _instance(index: int, stream: Stream, language: Language, join: Detokenizer) -> Instance:
    instance = Instance(
        index=index,
        talk=stream.talk,
        source_length=stream.chunks[-1].arrival if stream.chunks else 0.0,
        text=join(stream.tokens),
        units=tuple(stream.units),
        delays=tuple(stream.chunks[line].arrival for line in stream.lines),
        elapsed=(),
        unit=language.unit,
        chunk_of=tuple(stream.lines),
        chunks=tuple(stream.chunks),
    )
    return under(instance, "queue")
