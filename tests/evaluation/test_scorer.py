"""Rows of offline output."""

from dataclasses import replace

import pytest

from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import Instance
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.settings import Settings

TEXT = "the old man reads a book in the garden"


def test_offline_transcripts_have_word_errors_and_translations_have_none() -> None:
    segment = Segment(0.0, 4.0, TEXT, targets={"en": Target(TEXT)})
    talk = Talk("talk", audio=None, duration=4.0, source_language="en", segments=(segment,))
    words = tuple(TEXT.replace("garden", "house").split())
    times = (4.0,) * len(words)
    written = Instance(0, "talk", 4.0, " ".join(words), words, times, times, reference=TEXT)
    scorer = Scorer(Settings(recogniser=None))
    scores = scorer.offline([written], [talk], language("en")).scores
    assert scores["WER"].value == pytest.approx(100 / 9)
    assert scores["LostWords"].value == 0

    german = replace(talk, source_language="de")
    assert "WER" not in scorer.offline([written], [german], language("en")).scores
