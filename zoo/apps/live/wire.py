"""Messages between clients and the server, in terms that both protocols share."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from zoo.apps.live.engine import Progress
from zoo.base.errors import ZooError

MOST_VALUES = 10_000  # of a text message; a million empty lists take a second to read
Message = Mapping[str, Any]
Scores = Mapping[str, float | None]  # by name; None: not defined yet


class RefusedSettings(ZooError):
    """Settings that are wrong: audio that follows them is not to be translated by other ones."""


@dataclass(frozen=True, slots=True)
class Configure:
    """Settings of the next stream; None leaves a setting as it is.

    Attributes:
        sample_rate: Samples per second of bare samples.
        encoding: Name of their encoding.
        source: Code of the source language.
        target: Code of the target language.
        system: Name of a system.
        latency: Value of its latency knob.
        talk: Name of the talk that the audio is; "": none.
        recording: Name of the audio in the log; the server may have no such talk.
        with_speech: Whether the client receives target speech.
    """

    sample_rate: object = None
    encoding: object = None
    source: object = None
    target: object = None
    system: object = None
    latency: object = None
    talk: object = None
    recording: str | None = None
    with_speech: bool | None = None


@dataclass(frozen=True, slots=True)
class Audio:
    """Audio of a stream.

    Attributes:
        data: Samples in the encoding of the settings, or bytes of a file.
    """

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The end of a stream. Further audio begins another one."""


Order = Configure | Audio | End


class Wire(Protocol):
    """The messages of one protocol.

    A wire is made for each connection and may keep what its messages depend on.
    """

    def requested_settings(self) -> Configure:
        """Return the settings that the address asks for."""

    def greet(self) -> Iterator[Message]:
        """Return what the server sends when a client has connected."""

    def orders(self, message: str | bytes) -> Iterator[Order]:
        """Return what a message of the client asks for. Raises ZooError for a wrong message."""

    def confirm(self) -> Iterator[Message]:
        """Return what the server sends when it has accepted settings."""

    def progress(self, progress: Progress, *, with_speech: bool) -> Iterator[Message]:
        """Return what the server sends after a chunk."""

    def score(self, scores: Scores) -> Iterator[Message]:
        """Return what the server sends when it has scored what a stream has emitted so far."""

    def problem(self, sentence: str) -> Iterator[Message]:
        """Return what the server sends about a wrong message, or before it closes."""


def parse(message: str) -> Mapping[str, Any]:
    """Return the object of a message.

    Raises:
        RefusedSettings: The text is none, has too many values, or letters that no file can have.
    """
    if sum(map(message.count, ",[{")) > MOST_VALUES:
        raise RefusedSettings(
            f"A text message must be a JSON object of at most {MOST_VALUES} values."
        )
    try:
        data = json.loads(message)
        if "\\u" in message:
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RefusedSettings("A text message has half of a pair of surrogates.") from error
    except (ValueError, RecursionError) as error:
        raise RefusedSettings(f"A text message must be a JSON object ({error}).") from error
    if not isinstance(data, dict):
        raise RefusedSettings("A text message must be a JSON object.")
    return data
