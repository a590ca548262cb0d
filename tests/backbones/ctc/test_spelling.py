"""Letters and back."""

import torch

from zoo.backbones.ctc.spelling import Spelling, character_tokenizer

SPELLING = Spelling(character_tokenizer("abcß"))
BLANK, SPACE, A, B, C = 0, 2, 3, 4, 5


def test_texts_are_plain_letters() -> None:
    assert SPELLING.plain(" Aß, cab?  C-a.") == "aß cab c a"
    assert SPELLING.ids("Ab, c.").tolist() == [A, B, SPACE, C]
    assert SPELLING.ids("?").tolist() == []
    assert (SPELLING.blank, SPELLING.space) == (BLANK, SPACE)


def test_a_path_loses_repetitions_and_blanks_but_no_double_letter() -> None:
    path = [BLANK, SPACE, A, A, BLANK, A, SPACE, BLANK, SPACE, SPACE, B, B, BLANK, SPACE]
    ids = SPELLING.collapsed(torch.tensor(path))
    assert ids.tolist() == [A, A, SPACE, B]
    assert SPELLING.text(ids.tolist()) == "aa b"
    assert SPELLING.collapsed(torch.tensor([BLANK, SPACE, BLANK])).tolist() == []


def test_text_keeps_its_spaces() -> None:
    assert SPELLING.text([SPACE, A, SPACE, SPACE, B, BLANK]) == " a  b"
