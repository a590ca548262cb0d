"""Writes of text for tests of synthesizers."""

from zoo.languages import language
from zoo.streaming.session import Session, Write
from zoo.streaming.text import TextStream
from zoo.types import Hypothesis, no_tokens


def texts(*written: str, target: str = "de") -> list[Write]:
    """One stream per text."""
    session = Session(
        "talk", language("en"), language(target), 1, TextStream(decode=str, separator=" ")
    )
    nothing = Hypothesis(no_tokens(), no_tokens().bool())
    return [Write(session, nothing, 1, text) for text in written]
