"""Word alignments of files."""

from pathlib import Path

import pytest

from zoo.alignment.words.pharaoh import PharaohFile, write_pairs
from zoo.base.errors import ZooError

PAIRS = [(["a", "b"], ["x", "y", "z"]), (["c"], []), (["d"], ["w"])]


def test_links_are_read_by_target_word(tmp_path: Path) -> None:
    path = tmp_path / "links"
    path.write_bytes(b"\xef\xbb\xbf0-0 1-2 0-2\r\n\n0-0")
    assert PharaohFile(path=str(path)).align(PAIRS) == [((0,), (), (0, 1)), (), ((0,),)]
    path.write_text("0-0 2-1\n\n0-0\n")
    reversed_file = PharaohFile(path=str(path), target_first=True)
    assert reversed_file.align(PAIRS) == [((0,), (), (1,)), (), ((0,),)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0-0\n\n", "links of 2 pairs, but the corpus has 3"),
        ("0-0\n\n0-1\n", "line 3 links word 0 of 1 source words with word 1 of 1 target"),
        ("0-0\n\n0:0\n", "line 3 has '0:0' instead of a link such as 0-0"),
        ("0--1\n\n0-0\n", "line 1 has '0--1'"),
        ("0-0\n\n0-\u0661\n", "line 3 has"),
    ],
)
def test_other_content_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "links"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ZooError, match=message):
        PharaohFile(path=str(path)).align(PAIRS)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="need path"):
        PharaohFile(path=None).check()
    with pytest.raises(ZooError, match="There is no file"):
        PharaohFile(path=str(tmp_path / "none")).check()
    (tmp_path / "links").write_bytes(b"\xff\xfe")
    with pytest.raises(ZooError, match="not text in UTF-8"):
        PharaohFile(path=str(tmp_path / "links")).align(PAIRS)


def test_pairs_are_written_for_other_tools(tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs", PAIRS)
    assert (tmp_path / "pairs").read_text() == "a b ||| x y z\nc ||| \nd ||| w\n"
