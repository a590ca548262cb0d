"""Word times in TextGrids."""

from pathlib import Path

import pytest

from zoo.alignment.times.textgrid import TextGridTimes, read_textgrid
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Word

LONG = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 4.0
tiers? <exists>
size = 3
item []:
    item [1]:
        class = "IntervalTier"
        name = "Ann - words"
        xmin = 0
        xmax = 4.0
        intervals: size = 5
        intervals [1]:
            xmin = 0
            xmax = 1.5
            text = ""
        intervals [2]:
            xmin = 1.5
            xmax = 1.75
            text = "it's"
        intervals [3]:
            xmin = 1.75
            xmax = 2.25
            text = "<unk>"
        intervals [4]:
            xmin = 2.25
            xmax = 2.5
            text = "good"
        intervals [5]:
            xmin = 3.25
            xmax = 3.5
            text = "so"
    item [2]:
        class = "TextTier"
        name = "bells"
        xmin = 0
        xmax = 4.0
        points: size = 1
        points [1]:
            number = 1.0
            mark = "say ""ding"" [3]"
    item [3]:
        class = "IntervalTier"
        name = "Ann - phones"
        xmin = 0
        xmax = 4.0
        intervals: size = 1
        intervals [1]:
            xmin = 0
            xmax = 4.0
            text = "[2]"
"""
SHORT = """File type = "ooTextFile"
Object class = "TextGrid"

0
1e0
<exists>
1
"IntervalTier"
"words"
0
1
2
0
0.5
"so"
0.5
1
"[noise]"
"""


def write(folder: Path, name: str, content: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding=encoding)
    return path


def test_both_forms_and_encodings_are_read(tmp_path: Path) -> None:
    words = [Word("it's", 1.5, 1.75), Word("good", 2.25, 2.5), Word("so", 3.25, 3.5)]
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert read_textgrid(write(tmp_path, "a", LONG, encoding), tier="words") == words
    assert read_textgrid(write(tmp_path, "a", SHORT), tier="words") == [Word("so", 0.0, 0.5)]


def test_words_of_a_talk_are_mapped_to_its_transcripts(tmp_path: Path) -> None:
    write(tmp_path, "talk.TextGrid", LONG)
    segments = (Segment(1.0, 2.0, "“It's – Xylo good!”"), Segment(3.0, 0.5, "So."))
    talk = Talk("talk", None, 4.0, "en", segments)
    times = TextGridTimes(folder=str(tmp_path), language="en")
    times.check()
    first, second = times.times(talk, segments)
    assert [(word.text, word.start, word.end) for word in first.words] == [
        ("“It's", 1.5, 1.75),
        ("–", 1.75, 2.25),
        ("Xylo", 1.75, 2.25),  # between its neighbours
        ("good!”", 2.25, 2.5),
    ]
    assert second.words == (Word("So.", 3.25, 3.5),)


def test_segments_may_have_files_of_their_own(tmp_path: Path) -> None:
    segments = (Segment(0.0, 1.0, "Hi."), Segment(10.0, 1.0, "So."))
    talk = Talk("talk", tmp_path / "talk.wav", 12.0, "en", segments, voice="Ann")
    write(tmp_path, "Ann/talk_01.TextGrid", SHORT)
    pattern = "{voice}/{talk}_{segment:02d}.TextGrid"
    times = TextGridTimes(folder=str(tmp_path), language="en", pattern=pattern)
    first, second = times.times(talk, segments)
    assert first.problem == "there is no file Ann/talk_00.TextGrid"
    assert second.words == (Word("So.", 10.0, 10.5),)


def test_segments_without_words_are_reported(tmp_path: Path) -> None:
    write(tmp_path, "talk.TextGrid", LONG)
    segments = (Segment(0.0, 1.0, "Before."), Segment(1.0, 1.0, "–"))
    talk = Talk("talk", None, 4.0, "en", segments)
    results = TextGridTimes(folder=str(tmp_path), language="en").times(talk, segments)
    assert [result.problem for result in results] == [
        "the TextGrid has no words in it",
        "the transcript has no word",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LONG.replace("Ann - words", "Ann - letters"), "no tier 'words' of intervals; it has: Ann"),
        (LONG[: len(LONG) // 2], "is not a complete TextGrid"),
        (LONG.replace("xmax = 1.75", "xmax = ?", 1), "is not a complete TextGrid"),
        ("Hello", "is not a TextGrid"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, "talk.TextGrid", content)
    with pytest.raises(ZooError, match=message):
        read_textgrid(path, tier="words")


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="may contain"):
        TextGridTimes(folder="x", language="en", pattern="{name}.TextGrid")
    with pytest.raises(ZooError, match="need folder"):
        TextGridTimes(folder=None, language="en").check()
    with pytest.raises(ZooError, match="no folder"):
        TextGridTimes(folder=str(tmp_path / "none"), language="en").check()
