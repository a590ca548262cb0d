"""Speech requests for tests of synthesizers."""

from zoo.base.languages import language
from zoo.base.types import Hypothesis
from zoo.streaming.session import Session, SpeechRequest, empty_token_ids
from zoo.streaming.text import TextStream


def requests_for(*texts: str, target: str = "de") -> list[SpeechRequest]:
    """One request per text, of one session."""
    session = Session(
        "talk", language("en"), language(target), 1, TextStream(decode=str, separator=" ")
    )
    empty = Hypothesis(empty_token_ids(), empty_token_ids().bool())
    return [SpeechRequest(session, empty, 1, text) for text in texts]
