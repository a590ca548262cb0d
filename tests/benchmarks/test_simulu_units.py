"""Shares and error rates are counted right, on a hand-made attention and hand-made transcripts."""

from types import ModuleType

import pytest
import torch

from zoo.data.clips import Clip
from zoo.data.excerpts import Excerpt
from zoo.data.talks import Talk, Word
from zoo.languages import language
from zoo.objectives.text_to_unit import UnitBatch

GERMAN = language("de")


def clip(text: str) -> Clip:
    """A silent one."""
    words = tuple(text.split())
    excerpt = Excerpt(Talk("talk", None, 1.0, "en", ()), 0.0, 1.0, (), words, GERMAN)
    return Clip(excerpt, torch.zeros(320), tuple(Word(word, 0.0, 0.1) for word in words), (), "de")


def test_a_unit_is_right_on_any_token_of_its_word(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two words of one and two tokens; of four units the third looks back to the first word."""
    spoken = torch.zeros(1, 6, 5, dtype=torch.bool)
    spoken[0, 1:3, 2] = spoken[0, 3:5, 3:] = True
    attention = torch.full((1, 6, 5), 0.01)
    for query, position in ((1, 2), (2, 2), (3, 2), (4, 4)):
        attention[0, query, position] = 0.9
    attention[0, 3, 3] = 0.8  # nearly
    nothing = torch.zeros(0)
    batch = UnitBatch(
        0, nothing, nothing, nothing, nothing, torch.tensor([5]), nothing, nothing, spoken
    )
    monkeypatch.setattr(script.Memory, "batches", lambda *_: [batch])
    monkeypatch.setattr(script, "attentions", lambda *_: {"0": attention})
    found = script.assignments(None, [])
    assert found["0", 0, "none", "argmax"] == 0.75
    assert found["0", 0, "none", "monotone"] == 0.75
    assert (
        found["0", -1, "none", "argmax"] == 0.5
    )  # one position is one token further on: the third is right, too


def test_word_errors_are_told_by_length(script: ModuleType) -> None:
    class Recogniser:
        name = "made up"

    clips = [clip("Oh ja."), clip("Das ist ein Haus und ein Baum.")]
    rates = script.errors(["oh nein", "das ist haus und ein baum"], clips, GERMAN, Recogniser())
    assert rates == {"all": 22.22, "1-3": 50.0, "4-9": 14.29}
