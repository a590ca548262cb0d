"""Answers of an OpenAI-compatible server, by their schema: events, choices and lists of models."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zoo.base.disk.parsing import parse_json

LARGEST = 1 << 24  # bytes of an answer; one of 4,096 tokens has less than a MiB of events
LONGEST_DETAIL = 300  # characters of a server's text in a message
DONE = "[DONE]"
# Line ends of server-sent events; the last one may be the first half of "\r\n".
_LINE = re.compile(rb"\r\n|\n|\r(?!\Z)")


class AnswerError(Exception):
    """An answer has another form than the API's. The message continues "The server ... sent"."""


class IncompleteError(Exception):
    """An answer ends early; a later request may succeed. The message is the reason."""


class ServerError(Exception):
    """The answer is an error. The message is that of the server."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer.

    Attributes:
        text: The text that it adds.
        reason: Why the answer ends with it, in the server's word; None if it goes on.
    """

    text: str
    reason: str | None


def read(parts: Iterable[bytes]) -> str:
    """Return a whole body as text. Raises AnswerError if it has more than ``LARGEST`` bytes."""
    return b"".join(limit_size(parts)).decode(errors="replace")


def limit_size(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts of a body. Raises AnswerError after ``LARGEST`` bytes."""
    size = 0
    for part in parts:
        size += len(part)
        if size > LARGEST:
            raise AnswerError(f"more than {LARGEST >> 20} MiB as one answer")
        yield part


def pieces(parts: Iterable[bytes], *, events: bool) -> Iterator[Piece]:
    """Yield the pieces of an answer while its body arrives.

    Args:
        parts: Parts of the body.
        events: Whether the body is a stream of server-sent events; otherwise, it is one object.

    Raises:
        AnswerError: If the body is no JSON, has another form than the API's, or is too large.
        IncompleteError: If a stream ends before its answer does.
    """
    if not events:
        yield from _choice(_object(read(parts)))
        return
    ended = False
    for data in _events(limit_size(parts)):
        if data == DONE:
            return
        for piece in _choice(_object(data)):
            ended = ended or piece.reason is not None
            yield piece
    if not ended:
        raise IncompleteError("it closed the connection before the answer had ended")


def models(text: str) -> list[str]:
    """Return the names in a list of models; empty for any other text."""
    try:
        content = parse_json(text)
    except ValueError:
        return []
    entries = content.get("data") if isinstance(content, Mapping) else None
    named = [entry.get("id") for entry in _list(entries) if isinstance(entry, Mapping)]
    return [name for name in named if isinstance(name, str)]


def detail(text: str) -> str:
    """Return the text of an error: vLLM, SGLang and FastAPI nest it differently."""
    try:
        content = parse_json(text)
    except ValueError:
        return text
    return _detail(content) if isinstance(content, Mapping) else text


def one_line(text: str) -> str:
    """Return a text in one line of limited length, without a full stop."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= LONGEST_DETAIL else f"{line[:LONGEST_DETAIL]}..."


def _events(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of server-sent events, by the lines of the HTML standard."""
    data: list[str] = []
    for line in _lines(parts):
        field, _, value = line.removeprefix("\ufeff").partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield "\n".join(data).strip()
            data = []
    if data:
        yield "\n".join(data).strip()


def _lines(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield whole lines, which no other characters end: a text may contain U+2028."""
    rest = bytearray()
    for part in parts:
        rest += part
        if b"\n" not in part and b"\r" not in part:
            continue  # a long line is searched once
        *whole, last = _LINE.split(rest)
        rest = bytearray(last)
        yield from (line.decode(errors="replace") for line in whole)
    if rest.endswith(b"\r"):
        yield rest[:-1].decode(errors="replace")


def _object(text: str) -> Mapping[str, Any]:
    """Parse a JSON object. Raises AnswerError for any other text."""
    try:
        content = parse_json(text)
    except ValueError as error:
        raise AnswerError(f"what is not JSON ({one_line(text) or 'nothing'})") from error
    if not isinstance(content, Mapping):
        raise AnswerError(f"what is no JSON object ({one_line(text)})")
    return content


def _choice(content: Mapping[str, Any]) -> Iterator[Piece]:
    """Yield the piece of the first choice; nothing if there is no choice.

    Raises:
        AnswerError: If a field is of another type than the API's.
        ServerError: If the object is an error.
    """
    if content.get("error") is not None or content.get("object") == "error":
        raise ServerError(_detail(content))
    choices = _list(content.get("choices"), "choices")
    if not choices:
        return
    choice = _mapping(choices[0], "choices[0]")
    name = "delta" if choice.get("delta") is not None else "message"
    text = _mapping(choice.get(name) or {}, name).get("content")
    if isinstance(text, list):  # parts of an answer, such as {"type": "text", "text": "..."}
        parts = (_mapping(part, "content").get("text") for part in text)
        text = "".join(_text(part, "content") for part in parts)
    reason = _text(choice.get("finish_reason"), "finish_reason")
    yield Piece(_text(text, "content"), reason or None)


def _list(value: object, name: str = "") -> list[Any]:
    if name and not isinstance(value, list | None):
        raise _of_other_type(name, "list", value)
    return value if isinstance(value, list) else []


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _of_other_type(name, "object", value)
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str | None):
        raise _of_other_type(name, "text", value)
    return value or ""


def _of_other_type(name: str, wanted: str, value: object) -> AnswerError:
    return AnswerError(f"an answer whose {name!r} is no {wanted} but {type(value).__name__}")


def _detail(content: Mapping[str, Any]) -> str:
    """Return the text of an error object."""
    value: Any = content
    while isinstance(value, Mapping):
        texts = (value.get(name) for name in ("error", "message", "detail"))
        inner = next(filter(None, texts), None)
        if inner is None:
            break
        value = inner
    try:
        return str(value)
    except RecursionError:
        return "an error that is nested too deeply"
