"""Histories that restart a stream whose model ends its text while audio goes on."""

import pytest

from tests.history.streams import FRAME, answered, session
from zoo.errors import ZooError
from zoo.history.punctuation import Punctuation
from zoo.history.recent_words import RecentWords
from zoo.history.restart import Restart
from zoo.types import SAMPLE_RATE, Cut

FRAME_SECONDS = FRAME / SAMPLE_RATE
RESTART = Restart(after_seconds=10 * FRAME_SECONDS, margin_seconds=2 * FRAME_SECONDS)


@pytest.mark.parametrize(
    ("tokens", "attended", "kept_frames", "cut"),
    [
        ("ww.", [3, 6, 8], 20, Cut(tokens=3, frames=11)),  # eleven frames follow frame 8
        ("ww.", [3, 6, 8], 19, Cut()),  # ten frames
        ("ww.", [8, 3, 6], 20, Cut(tokens=3, frames=11)),  # the last frame is not the last row's
        ("ww?", [3, 6, 12], 20, Cut(tokens=3, frames=9)),  # a mark attends to the next sentence
        ("?", [6], 20, Cut(tokens=1, frames=9)),  # there is no word
        ("ww.w", [3, 6, 8, 12], 40, Cut()),  # the answer has a token that is not written
        ("", [], 40, Cut()),  # no text that could go
    ],
)
def test_all_text_goes_when_an_answer_is_empty_and_much_audio_follows(
    tokens: str, attended: list[int], kept_frames: int, cut: Cut
) -> None:
    written = min(3, len(tokens))
    stream = session(kept_frames, prefix=written)
    answer = answered(tokens, attended, prefix=written)
    for history in (RecentWords(words=5, restart=RESTART), Punctuation(restart=RESTART)):
        assert history.trim(stream, answer) == cut
    assert RecentWords(words=5).trim(stream, answer) == Cut()  # as in the papers
    assert RecentWords(words=5, restart=RESTART).trim(stream, None) == Cut()


def test_impossible_values_are_refused() -> None:
    with pytest.raises(ZooError, match="after_seconds"):
        Restart(after_seconds=0)
    with pytest.raises(ZooError, match="margin_seconds"):
        Restart(after_seconds=1.0, margin_seconds=1.5)
