"""Writes of text for tests of synthesizers."""

from zoo.languages import language
from zoo.streaming.session import Session, SpeechRequest
from zoo.streaming.text import TextStream
from zoo.types import Hypothesis, empty_token_ids


def texts(*written: str, target: str = "de") -> list[SpeechRequest]:
    """One stream per text."""
    session = Session(
        "talk", language("en"), language(target), 1, TextStream(decode=str, separator=" ")
    )
    nothing = Hypothesis(empty_token_ids(), empty_token_ids().bool())
    return [SpeechRequest(session, nothing, 1, text) for text in written]
