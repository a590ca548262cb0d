"""Events of OpenAI's realtime API in the part that vLLM's ``/v1/realtime`` has.

A client sends ``session.update``, ``input_audio_buffer.append`` with 16-bit samples in base64, and
``input_audio_buffer.commit``, whose ``final`` ends the stream. The server sends
``session.created``, ``session.updated``, ``transcription.delta``, ``transcription.done`` and
``error``. ``model`` of the address or of ``session.update`` is the name of a system; the other
fields of a session are those of ``session.py``. Ours: ``delay`` and ``elapsed`` of a delta.
"""

import base64
import binascii
from collections.abc import Iterator
from uuid import uuid4

from zoo.apps.live.engine import Progress
from zoo.apps.live.session import settings_of
from zoo.apps.live.wire import Audio, Configure, End, Message, Order, RefusedSettings, Scores, parse
from zoo.base.errors import ZooError

EVENT_FIELDS = ("type", "event_id", "session")  # those of session.update that are no setting
EVENTS = ("session.update", "input_audio_buffer.append", "input_audio_buffer.commit")


class RealtimeWire:
    """The events of one connection.

    Args:
        model: Name of the system that translates unless the client names another one.
        asked: Name in the address; None: there is none.
    """

    def __init__(self, model: str, asked: str | None = None) -> None:
        self._model = model if asked is None else asked
        self._in_address = asked
        self._asked: object = None  # model of the newest settings, which may be refused
        self._id = f"sess_{uuid4().hex}"
        self._text = ""

    def requested_settings(self) -> Configure:
        """Return the system that the address names."""
        return Configure(system=self._in_address)

    def greet(self) -> Iterator[Message]:
        """Return ``session.created``."""
        yield self._session("session.created")

    def orders(self, message: str | bytes) -> Iterator[Order]:
        """Return settings, audio or the end of the stream; raises ZooError for other events."""
        if isinstance(message, bytes):
            raise ZooError("Audio is sent in base64, by input_audio_buffer.append.")
        data = parse(message)
        kind = data.get("type")
        if kind == "session.update":
            yield self._update(data)
        elif kind == "input_audio_buffer.append":
            yield Audio(_decode(data.get("audio")))
        elif kind == "input_audio_buffer.commit":
            if data.get("final"):
                yield End()
        else:
            raise ZooError(f"Unknown event {kind!r}; choose one of: {', '.join(EVENTS)}.")

    def confirm(self) -> Iterator[Message]:
        """Return ``session.updated``."""
        if isinstance(self._asked, str):
            self._model = self._asked
        yield self._session("session.updated")

    def progress(self, progress: Progress, *, with_speech: bool) -> Iterator[Message]:
        """Return the new text, and the whole text at the end of a stream."""
        output = progress.output
        if output is not None:
            self._text = self._text.removesuffix(output.deleted) + output.text
            if output.text or output.deleted:
                yield {
                    "type": "transcription.delta",
                    "delta": output.text,
                    "delay": round(output.delay, 3),
                    "elapsed": round(output.elapsed, 3),
                    **({"deleted": output.deleted} if output.deleted else {}),
                }
        if progress.final:
            yield {"type": "transcription.done", "text": self._text.strip()}
            self._text = ""

    def score(self, scores: Scores) -> Iterator[Message]:
        """Return nothing: its clients name no talk."""
        return iter(())

    def problem(self, sentence: str) -> Iterator[Message]:
        """Return ``error``."""
        yield {"type": "error", "error": {"type": "invalid_request_error", "message": sentence}}

    def _session(self, kind: str) -> Message:
        return {"type": kind, "session": {"id": self._id, "model": self._model}}

    def _update(self, data: Message) -> Configure:
        """Return the settings of ``session.update``, which may be in ``session``."""
        given = data.get("session", {})
        if not isinstance(given, dict):
            raise RefusedSettings("session of session.update must be an object.")
        outer = {key: value for key, value in data.items() if key not in EVENT_FIELDS}
        settings = settings_of({**outer, **given})
        self._asked = settings.system
        return settings


def _decode(audio: object) -> bytes:
    """Return the bytes of a text in base64. Raises ZooError for anything else."""
    if not isinstance(audio, str):
        raise ZooError("input_audio_buffer.append needs audio, 16-bit samples in base64.")
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ZooError("The audio of input_audio_buffer.append is not base64.") from error
