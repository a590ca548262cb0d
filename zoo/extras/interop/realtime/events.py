"""Events of realtime endpoints: what a client sends, and the text in what a server sends.

- ``vllm``: ``/v1/realtime`` of vLLM, and that of ``python -m zoo live``
  (https://docs.vllm.ai/en/v0.22.1/api/vllm/entrypoints/speech_to_text/realtime/api_router/).
- ``openai_transcription``: transcription sessions of OpenAI's realtime API
  (https://developers.openai.com/api/docs/guides/realtime-transcription).
- ``openai_translation``: translation sessions of the same API
  (https://developers.openai.com/api/docs/guides/realtime-translation).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from zoo.base.types import SAMPLE_RATE
from zoo.streaming.text import Revision, revise_text

DialectName = Literal["vllm", "openai_transcription", "openai_translation"]
Event = Mapping[str, Any]
END = "end-of-audio"  # id of the event that ends the audio of a transcription


class ServerError(Exception):
    """A server reports an error, or sends what is no event of its dialect."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a client asks a server for.

    Attributes:
        model: Name of the model; None: the server has one.
        source: Code of the source language; None: it is detected.
        target: Code of the target language.
        separator: String between two independent texts.
        fields: Further fields of the session.
    """

    model: str | None
    source: str | None
    target: str
    separator: str
    fields: Mapping[str, Any] = field(default_factory=dict)


class Dialect:
    """The events of one connection.

    Args:
        session: What the client asks for.

    Attributes:
        path: Path of the endpoint, for an address without one.
        query: Query of the address.
        sample_rate: Samples per second of the audio.
        ready: Type of the event after which the server receives audio.
        ended: Whether the server has sent everything.
    """

    path: ClassVar[str] = "/v1/realtime"
    sample_rate: ClassVar[int] = SAMPLE_RATE
    ready: ClassVar[str] = "session.updated"

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ended = False

    @property
    def query(self) -> str:
        """Query of the address; empty: none."""
        return ""

    def first_events(self) -> Iterator[Event]:
        """Yield what the client sends before the audio."""
        raise NotImplementedError

    def audio(self, data: str) -> Event:
        """Return the event of a piece of audio, 16-bit samples in base64."""
        return {"type": "input_audio_buffer.append", "audio": data}

    def last_event(self) -> Event:
        """Return the event of the end of the audio."""
        raise NotImplementedError

    def read(self, event: Event) -> Revision | None:
        """Return how an event of the server changes the text; None: it does not.

        Raises:
            ServerError: The event reports an error.
        """
        raise NotImplementedError


class Vllm(Dialect):
    """Events of vLLM; ``deleted`` and the languages are those of ``python -m zoo live``.

    vLLM generates from the first commit on, and does not acknowledge ``session.update``.
    """

    ready = "session.created"

    def first_events(self) -> Iterator[Event]:
        """Yield the model and the languages, and the event with which vLLM begins to generate."""
        session = self.session
        settings = {
            "model": session.model,
            "source_language": session.source,
            "target_language": session.target,
        }
        given = {key: value for key, value in settings.items() if value is not None}
        yield {"type": "session.update", **given, **session.fields}
        yield {"type": "input_audio_buffer.commit"}

    def last_event(self) -> Event:
        """Return the final commit; see ``Dialect``."""
        return {"type": "input_audio_buffer.commit", "final": True}

    def read(self, event: Event) -> Revision | None:
        """Return the text of a delta; see ``Dialect``."""
        check_error(event)
        if event.get("type") == "transcription.delta":
            return Revision(text_of(event, "delta"), len(text_of(event, "deleted")))
        self.ended = event.get("type") == "transcription.done"
        return None


class OpenaiTranslation(Dialect):
    """A translation session, whose target speech is not used."""

    path = "/v1/realtime/translations"
    sample_rate = 24_000

    @property
    def query(self) -> str:
        """The model."""
        return f"model={quote(str(self.session.model))}"

    def first_events(self) -> Iterator[Event]:
        """Yield the target language; see ``Dialect``."""
        session = {"audio": {"output": {"language": self.session.target}}}
        yield {"type": "session.update", "session": merge(session, self.session.fields)}

    def audio(self, data: str) -> Event:
        """Return the event of a piece of audio; see ``Dialect``."""
        return {"type": "session.input_audio_buffer.append", "audio": data}

    def last_event(self) -> Event:
        """Return the event that closes the session; see ``Dialect``."""
        return {"type": "session.close"}

    def read(self, event: Event) -> Revision | None:
        """Return the text of a delta of the translation; see ``Dialect``."""
        check_error(event)
        if event.get("type") == "session.output_transcript.delta":
            return Revision(text_of(event, "delta"), 0)
        self.ended = event.get("type") == "session.closed"
        return None


class OpenaiTranscription(Dialect):
    """A transcription session: a text of one or several items, each of some committed audio.

    The final transcript of an item takes the place of its deltas. Transcripts of several items may
    be completed in any order.
    """

    sample_rate = 24_000

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._texts: dict[str, str] = {}  # of each item
        self._open: set[str] = set()  # items whose transcript is not complete
        self._ending = False  # the end of the audio is sent, but not acknowledged yet
        self._acknowledged = False

    @property
    def query(self) -> str:
        """The kind of session: the model is part of ``session.update``."""
        return "intent=transcription"

    def first_events(self) -> Iterator[Event]:
        """Yield the format and the model, without the detection of turns; see ``Dialect``."""
        audio = {
            "format": {"type": "audio/pcm", "rate": self.sample_rate},
            "transcription": {"model": self.session.model},
            "turn_detection": None,
        }
        session = {"type": "transcription", "audio": {"input": audio}}
        yield {"type": "session.update", "session": merge(session, self.session.fields)}

    def last_event(self) -> Event:
        """Return the commit of all audio that is not committed yet; see ``Dialect``."""
        self._ending = True
        return {"type": "input_audio_buffer.commit", "event_id": END}

    def read(self, event: Event) -> Revision | None:
        """Return the change by a delta or a final transcript; see ``Dialect``.

        If the server commits turns itself, there may be nothing left to commit in the end, which
        the server reports as an error of the last commit.
        """
        nothing_left = self._ending and is_error_of(event, END)
        if not nothing_left:
            check_error(event)
        kind, item, change = event.get("type"), text_of(event, "item_id"), None
        if kind == "conversation.item.input_audio_transcription.delta":
            self._open.add(item)
            change = self._revise(item, self._texts.get(item, "") + text_of(event, "delta"))
        elif kind == "conversation.item.input_audio_transcription.completed":
            self._open.discard(item)
            change = self._revise(item, text_of(event, "transcript"))
        elif kind == "input_audio_buffer.committed":
            self._open.add(item)
        if nothing_left or (self._ending and kind == "input_audio_buffer.committed"):
            self._ending, self._acknowledged = False, True
        self.ended = self._acknowledged and not self._open
        return change

    def _revise(self, item: str, text: str) -> Revision:
        """Return the change of the whole text if the text of an item becomes ``text``."""
        self._texts.setdefault(item, "")
        place = list(self._texts).index(item)
        before = self._text_from(place)
        self._texts[item] = text
        after = self._text_from(place)
        if after.startswith(before):
            return Revision(after[len(before) :], 0)
        return revise_text(before, after, words=bool(self.session.separator))

    def _text_from(self, place: int) -> str:
        """Return the text of an item and of all later ones, with the separator before them."""
        texts = [text.strip() for text in self._texts.values()]
        later = self.session.separator.join(filter(None, texts[place:]))
        return self.session.separator + later if later and any(texts[:place]) else later


DIALECTS: Mapping[DialectName, type[Dialect]] = {
    "vllm": Vllm,
    "openai_transcription": OpenaiTranscription,
    "openai_translation": OpenaiTranslation,
}


def merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the fields of another one, which may be objects, too."""
    both = {
        key: merge(base[key], value)
        for key, value in more.items()
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
    }
    return {**base, **more, **both}


def text_of(event: Event, key: str) -> str:
    """Return a text of an event; empty if it is missing. Half surrogate pairs become ``?``.

    Raises:
        ServerError: The value is no text.
    """
    value = event.get(key) or ""
    if not isinstance(value, str):
        raise ServerError(f"sends {event.get('type')!r} with a {key} that is no text")
    return value.encode(errors="replace").decode()


def is_error_of(event: Event, event_id: str) -> bool:
    """Return whether an event reports an error of one of the client's events."""
    error = event.get("error")
    return isinstance(error, Mapping) and error.get("event_id") == event_id


def check_error(event: Event) -> None:
    """Raise ServerError for an event that reports an error."""
    kind = str(event.get("type"))
    if kind == "error" or kind.endswith("transcription.failed"):
        error = event.get("error")
        message = error.get("message") if isinstance(error, Mapping) else error
        raise ServerError(f"reports an error: {message}")
