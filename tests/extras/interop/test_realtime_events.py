"""Transcripts of OpenAI's realtime API, which has several items, in any order."""

from typing import Any

import pytest

from zoo.extras.interop.realtime.events import END, OpenaiTranscription, ServerError, Session

KIND = "conversation.item.input_audio_transcription"


def dialect(separator: str = " ") -> OpenaiTranscription:
    return OpenaiTranscription(Session("m", "en", "de", separator))


def text(dialect: OpenaiTranscription, *events: tuple[str, str, str]) -> str:
    """The text after deltas, final transcripts and commits."""
    found = ""
    for kind, item, value in events:
        if kind == "committed":
            event: dict[str, Any] = {"type": "input_audio_buffer.committed", "item_id": item}
        else:
            event = {"type": f"{KIND}.{kind}", "item_id": item}
            event |= {"delta": value} if kind == "delta" else {"transcript": value}
        change = dialect.read(event)
        if change is not None:
            found = found[: len(found) - change.retracted] + change.text
    return found


def test_items_are_joined_and_replaced_by_their_final_transcripts() -> None:
    events = [
        ("delta", "a", "One"),
        ("delta", "a", " too"),
        ("delta", "b", "Three"),
        ("delta", "b", " four "),
        ("completed", "a", "One, two."),
        ("completed", "b", "Three four."),
    ]
    for last, expected in enumerate(
        ["One", "One too", "One too Three", "One too Three four", "One, two. Three four"], start=1
    ):
        assert text(dialect(), *events[:last]) == expected
    assert text(dialect(), *events) == "One, two. Three four."
    assert text(dialect(""), *events) == "One, two.Three four."
    assert text(dialect(), ("completed", "a", ""), ("completed", "b", "Two")) == "Two"


def test_it_ends_with_the_last_transcript_after_the_last_commit() -> None:
    found = dialect()
    text(found, ("committed", "a", ""), ("completed", "a", "One."), ("committed", "b", ""))
    assert not found.ended
    assert found.last_event()["event_id"] == END
    text(found, ("completed", "b", "Two."))
    assert not found.ended
    text(found, ("committed", "c", ""))
    assert not found.ended
    text(found, ("completed", "c", "Three."))
    assert found.ended


def test_a_server_that_has_committed_everything_has_nothing_left() -> None:
    found, error = dialect(), {"type": "error", "error": {"event_id": END, "message": "empty"}}
    with pytest.raises(ServerError, match="empty"):
        found.read(error)
    found.last_event()
    found.read(error)
    assert found.ended


def test_a_transcript_that_fails_is_an_error() -> None:
    failed = {"type": f"{KIND}.failed", "item_id": "a", "error": {"message": "no speech"}}
    with pytest.raises(ServerError, match="no speech"):
        dialect().read(failed)


def test_half_a_surrogate_pair_can_be_written() -> None:
    assert text(dialect(), ("delta", "a", "x\ud800")).encode() == b"x?"
