"""Fields of OpenAI's realtime sessions: what is used, what changes nothing, what is refused."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.apps.live.formats import OPENAI
from zoo.apps.live.wire import Configure, RefusedSettings
from zoo.base.errors import LONGEST_VALUE, unknown_choice

Fields = dict[str, Any]  # values by path, such as audio.input.format.rate

# Settings by the path of a field. Those without a dot, but model, are ours.
USED = {
    "model": "system",
    "latency": "latency",
    "source_language": "source",
    "target_language": "target",
    "sample_rate": "sample_rate",
    "encoding": "encoding",
    "audio.input.format.rate": "sample_rate",
    "audio.input.transcription.language": "source",
    "input_audio_transcription.language": "source",
    "audio.output.language": "target",
}
FORMATS = ("audio.input.format.type", "audio.input.format", "input_audio_format")
# Values of other fields that ask for what is done anyway.
DESCRIPTIONS = ("type", "object", "id")  # of any value
ANYWAY = {
    "output_modalities": ["text"],
    "modalities": ["text"],
    "tool_choice": "auto",
    "max_output_tokens": "inf",
    "max_response_output_tokens": "inf",
    "truncation": "auto",
}
NOTHING: tuple[object, ...] = (None, "", [], {})
DEEPEST = 4  # fields within fields
FEW = 5  # fields that a sentence names


def settings_of(session: Mapping[str, Any]) -> Configure:
    """Return the settings that a session asks for.

    Args:
        session: Fields of ``session.update``.

    Raises:
        RefusedSettings: It asks for what this server does not have, or for two different things.
    """
    fields = dict(_fields(session))
    settings: Fields = {}
    for path, name in USED.items():
        if path in fields:
            _set(settings, name, fields.pop(path), path)
    for path in FORMATS:
        if path in fields:
            encoding, rate = _format(fields.pop(path), path)
            _set(settings, "encoding", encoding, path)
            settings.setdefault("sample_rate", rate)
    others = [path for path, value in fields.items() if not _changes_nothing(path, value)]
    if others:
        named = ", ".join(others[:FEW])
        raise RefusedSettings(
            f"session.update asks for {named}, which this server does not have; "
            f"it has: {', '.join(dict.fromkeys([*USED, *FORMATS[1:]]))}."
        )
    return Configure(**settings)


def _fields(part: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the paths and the values of fields that have a value."""
    for key, value in part.items():
        if len(key) > LONGEST_VALUE:  # thousands of fields within it would each repeat it
            raise RefusedSettings(f"A field of a session has at most {LONGEST_VALUE} letters.")
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value and path.count(".") < DEEPEST:
            yield from _fields(value, f"{path}.")
        elif value is not None:
            yield path, value


def _set(settings: Fields, name: str, value: object, path: str) -> None:
    """Set a setting, which another field may have set to the same value."""
    if settings.setdefault(name, value) != value:
        raise RefusedSettings(
            f"session.update asks for {name} {settings[name]!r}, and for {value!r} by {path}; "
            "choose one of the two."
        )


def _format(name: object, path: str) -> tuple[str, int]:
    """Return the encoding and the sample rate that OpenAI's name of a format means."""
    if not isinstance(name, str) or name not in OPENAI:
        raise RefusedSettings(str(unknown_choice(path, name, OPENAI)))
    return OPENAI[name]


def _changes_nothing(path: str, value: object) -> bool:
    return path in DESCRIPTIONS or value in NOTHING or ANYWAY.get(path) == value
