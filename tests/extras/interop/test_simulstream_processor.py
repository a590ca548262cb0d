"""The output that turns the text of a stream into another text; needs no simulstream."""

import pytest

from zoo.base.types import Action
from zoo.extras.interop.foreign import ForeignStream
from zoo.extras.interop.simulstream_processor import rewrite_output


@pytest.mark.parametrize(
    ("before", "after", "words", "expected"),
    [
        ("", "Guten", True, Action("Guten")),
        ("Guten", "Guten Tag", True, Action(" Tag")),
        ("Guten Ta", "Guten Tag", True, Action("g")),
        ("Guten Tage", "Guten Tag", True, Action("Tag", retracted=4)),
        ("Guten Tag", "Guten Abend", True, Action("Abend", retracted=3)),
        ("Guten Tag", "", True, Action("", retracted=9)),
        ("你好吗", "你好啊", False, Action("啊", retracted=1)),
        ("same", "same", True, Action()),
    ],
)
def test_a_word_that_loses_characters_is_written_again(
    before: str, after: str, words: bool, expected: Action
) -> None:
    stream = ForeignStream(None, text=before)
    action = rewrite_output(stream, after, words=words)
    assert action == expected
    assert stream.text == after
    assert before[: len(before) - action.retracted] + action.text == after
