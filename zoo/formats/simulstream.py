"""simulstream's JSONL: the metadata of each client, then one line per chunk of audio.

A chunk's line has the emitted and the deleted tokens. Times are seconds.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from zoo.base.disk.files import write_text
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import ChunkTime, Instance, StreamEvent
from zoo.formats.checks import LONGEST, check_stream, reading
from zoo.formats.pieces import (
    SPACE_MARK,
    PieceForm,
    ToBytes,
    find_form,
    is_special,
    named_form,
)
from zoo.formats.text import Line, Record, json_lines, recording_name
from zoo.streaming.elapsed import with_convention

BREAKS = str.maketrans("\t\n\v\f\r", "     ")  # they end a word like a space
LEAST_NUMBERS = 5  # a stream of at least so many tokens is no translation if all are numbers
# The entries of a processor's configuration that simulstream's scorers read: the text is the tokens
# joined, with spaces for the marks.
SCORING = {"detokenizer_type": "simuleval", "latency_unit": "spm"}


def marked_tokens(text: str) -> list[str]:
    """Split a piece of output into tokens; a mark in place of white space begins a token."""
    return re.findall(
        rf"{SPACE_MARK}[^{SPACE_MARK}]*|[^{SPACE_MARK}]+", re.sub(r"\s+", SPACE_MARK, text)
    )


def write_log(path: Path, instances: Sequence[Instance]) -> None:
    """Write a log, and beside it ``simulstream.yaml``, the configuration for the scorers.

    A stream without chunk times is written only if it has no compute, such as an oracle; otherwise
    no file is written.
    """
    if all(instance.chunks or instance.elapsed == instance.delays for instance in instances):
        records = (record for instance in instances for record in _records(instance))
        write_text(path, json_lines(records))
        write_text(path.with_name("simulstream.yaml"), yaml.safe_dump(SCORING))


def _records(instance: Instance) -> Iterator[Record]:
    """Yield the lines of one stream: its metadata, then one per chunk."""
    yield {"id": instance.index, "metadata": {"wav_name": f"{instance.talk}.wav"}}
    chunks, chunk_of = instance.chunks, instance.chunk_indices
    if not chunks:  # the log is of an oracle: a chunk ends where it writes
        ends = sorted({*instance.delays, instance.source_length})
        chunks = tuple(ChunkTime(end, 0.0) for end in ends)
        chunk_of = tuple(ends.index(delay) for delay in instance.delays)

    tokens: list[list[str]] = [[] for _ in chunks]
    position = 0
    for unit, chunk in zip(instance.units, chunk_of, strict=True):
        end = instance.text.index(unit, position) + len(unit)
        tokens[chunk] += marked_tokens(instance.text[position:end])
        position = end
    for time, emitted in zip(chunks, tokens, strict=True):
        yield {
            "id": instance.index,
            "total_audio_processed": time.arrival,
            "computation_time": time.compute,
            "generated_tokens": emitted,
            "deleted_tokens": [],
        }


@dataclass(frozen=True, slots=True)
class ClientState:
    """Output of a client before a token.

    Attributes:
        number: number of units.
        last: text of the last unit, which the token may continue; empty without units.
        pending: white space at the end, which belongs to the text if more text follows.
        rest: bytes at the end that are a part of a character.
    """

    number: int
    last: str
    pending: str
    rest: bytes


@dataclass(slots=True)
class ClientStream:
    """Output of one client so far. A token is split into units once, however long the stream is.

    Attributes:
        talk: name of its recording.
        language: target language.
        form: how tokens become text; None: each is a word or a character.
        tokens: emitted and not deleted.
        texts: text of each token.
        written_at: per token, index of the chunk that wrote it.
        before: per token, the state before it.
        units: words (or characters) of ``tokens``.
        pending: white space at the end of the text of pieces.
        rest: bytes at the end that are a part of a character.
        changed_at: per unit, index of the chunk that last changed it.
        chunks: times of the chunks.
        revisions: deletions of tokens.
    """

    talk: str
    language: Language
    form: ToBytes | None
    tokens: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    written_at: list[int] = field(default_factory=list)
    before: list[ClientState] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    pending: str = ""
    rest: bytes = b""
    changed_at: list[int] = field(default_factory=list)
    chunks: list[ChunkTime] = field(default_factory=list)
    revisions: list[StreamEvent] = field(default_factory=list)

    def delete(self, number: int) -> None:
        """Delete the last ``number`` tokens, at least one."""
        first = len(self.tokens) - number
        state = self.before[first]
        chunk = len(self.chunks) - 1
        deleted = list(zip(self.texts[first:], self.written_at[first:], strict=True))
        at = self.chunks[chunk].arrival
        if revision := StreamEvent.revision(deleted, at=at, chunk=chunk):
            self.revisions.append(revision)
        old = self.units[state.number - 1 : state.number] if state.number else []
        del self.tokens[first:], self.texts[first:], self.before[first:], self.written_at[first:]
        del self.units[state.number :]
        self.units[-1:] = [state.last] if self.units else []
        self.pending, self.rest = state.pending, state.rest
        self._assign(state.number, old)

    def append(self, tokens: Sequence[str]) -> None:
        """Append emitted tokens."""
        number, old = len(self.units), self.units[-1:]
        for token in tokens:
            last = self.units[-1] if self.units else ""
            self.before.append(ClientState(len(self.units), last, self.pending, self.rest))
            self.texts.append(self._text_of(token))
            self._split(self.texts[-1])
            self.tokens.append(token)
            self.written_at.append(len(self.chunks) - 1)
        self._assign(number, old)

    def _text_of(self, token: str) -> str:
        """Return the text that a token adds; a character appears with the last of its bytes."""
        if is_special(token):
            return ""
        if self.form is None:
            return self.language.separator * any(self.texts) + token
        decoder = getincrementaldecoder("utf-8")("replace")
        text: str = decoder.decode(self.rest + self.form(token))
        self.rest = decoder.getstate()[0]
        return text.translate(BREAKS)

    def _split(self, added: str) -> None:
        """Continue the last unit by a text, and add further units."""
        body = added
        if self.form is not None:
            text = self.pending + added
            body = text.rstrip()
            self.pending = text[len(body) :] if self.units or body else ""
            body = body if self.units else body.lstrip()
        if self.language.unit == "char":
            self.units += body
            return
        first, *others = body.split(" ")
        if first:
            self.units[-1:] = [(self.units[-1] if self.units else "") + first]
        self.units += [word for word in others if word]

    def _assign(self, number: int, old: Sequence[str]) -> None:
        """Assign new units, and a last word that changed, to the current chunk.

        Args:
            number: number of units that were there before and still are.
            old: the last of them, as it was; empty without any.
        """
        chunk = len(self.chunks) - 1
        del self.changed_at[number:]
        self.changed_at += [chunk] * (len(self.units) - number)
        if self.language.unit == "word" and old and self.units[number - 1] != old[0]:
            self.changed_at[number - 1] = chunk

    @property
    def text(self) -> str:
        """Text of all tokens."""
        if self.form is not None:
            return "".join(self.texts).strip()
        return self.language.join(token for token in self.tokens if not is_special(token))


def instances(
    records: Sequence[Line], path: Path, language: Language, pieces: PieceForm | None = None
) -> list[Instance]:
    """One instance per recording, with chunk times.

    The delay of a unit is that of the chunk that last changed it.

    Args:
        records: lines of the file.
        path: the file, for messages.
        language: target language.
        pieces: form of the tokens; None: it is recognised.

    Raises:
        ZooError: a recording occurs twice or goes back in time (the tool appends to its log),
            tokens are deleted that were not emitted, or they do not have the named form.
    """
    clients: dict[object, list[Line]] = {}
    talks: dict[str, list[Line]] = {}
    for record in records:
        where = f"{path}, line {record.line},"
        with reading(path, record.line, "simulstream"):
            if "metadata" in record:
                talk = recording_name(record["metadata"]["wav_name"])
                if record["id"] in clients or talk in talks:
                    raise ZooError(
                        f"{where} has talk {talk!r} twice: two runs were written to one log."
                    )
                clients[record["id"]] = talks[talk] = [record]
            elif "id" in record:
                if record["id"] not in clients:
                    raise ZooError(
                        f"{where} has output of client {record['id']!r} before its metadata."
                    )
                clients[record["id"]].append(record)
    if not talks:
        raise ZooError(f"{path} has no line with metadata; is this a simulstream log?")

    emitted: set[str] = set()
    kept = [_check_tokens(talk, lines[1:], path, emitted) for talk, lines in talks.items()]
    form = find_form(emitted, kept) if pieces is None else named_form(pieces, emitted)
    streams: list[Instance] = []
    for index, (talk, lines) in enumerate(talks.items()):
        stream = ClientStream(talk, language, form)
        for record in lines[1:]:
            with reading(path, record.line, "simulstream"):
                _advance(stream, record, path)
        instance = _instance(index, stream, language)
        check_stream(instance, f"{path}, line {lines[-1].line}: talk {talk!r}", forward=False)
        streams.append(instance)
    return streams


def _check_tokens(talk: str, records: Sequence[Line], path: Path, emitted: set[str]) -> list[str]:
    """Return the tokens of a client in the end.

    Args:
        talk: name of the recording.
        records: lines of the client.
        path: the file, for messages.
        emitted: tokens of all clients, to which those of this one are added.

    Raises:
        ZooError: a field is no list of tokens.
    """
    kept: list[str] = []
    for record in records:
        for key in ("generated_tokens", "deleted_tokens"):
            tokens = record.get(key) or []
            if not isinstance(tokens, list) or not all(isinstance(one, str) for one in tokens):
                raise ZooError(
                    f"{path}, line {record.line}: talk {talk!r} has {key!r} that are not a list of "
                    "texts."
                )
        del kept[len(kept) - len(record.get("deleted_tokens") or []) :]
        kept += record.get("generated_tokens") or []
        emitted.update(record.get("generated_tokens") or [])
    if len(kept) >= LEAST_NUMBERS and all(token.isdecimal() for token in kept):
        raise ZooError(
            f"{path}: talk {talk!r} has only numbers as tokens; they must be texts, not "
            "indices of a vocabulary."
        )
    return kept


def _advance(stream: ClientStream, record: Line, path: Path) -> None:
    """Add a chunk to a stream."""
    where = f"{path}, line {record.line}: talk {stream.talk!r}"
    arrival, compute = (float(record[key]) for key in ("total_audio_processed", "computation_time"))
    if not (0 <= arrival <= LONGEST and 0 <= compute <= LONGEST):
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
        stream.delete(len(deleted))
    stream.append(record.get("generated_tokens") or [])


def _instance(index: int, stream: ClientStream, language: Language) -> Instance:
    instance = Instance(
        index=index,
        talk=stream.talk,
        source_length=stream.chunks[-1].arrival if stream.chunks else 0.0,
        text=stream.text,
        units=tuple(stream.units),
        delays=tuple(stream.chunks[chunk].arrival for chunk in stream.changed_at),
        elapsed=(),
        unit=language.unit,
        chunk_indices=tuple(stream.changed_at),
        chunks=tuple(stream.chunks),
        events=tuple(stream.revisions),
    )
    return with_convention(instance, "queue")
