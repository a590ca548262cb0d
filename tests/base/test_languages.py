"""Units and words of written languages."""

import sys
import tempfile
from pathlib import Path

import pytest

from zoo.base import languages
from zoo.base.errors import ZooError
from zoo.base.languages import LANGUAGES, language


def test_units_are_what_delays_are_counted_in() -> None:
    assert language("de").units(" Das  Haus, ja. ") == ["Das", "Haus,", "ja."]
    assert language("zh").units("你好， AI。") == ["你", "好", "，", "A", "I", "。"]


@pytest.mark.parametrize("code", LANGUAGES)
def test_joining_undoes_units(code: str) -> None:
    text = "你好" if language(code).unit == "char" else "so it goes"
    assert language(code).join(language(code).units(text)) == text


def test_words_have_a_letter_or_a_digit() -> None:
    assert language("en").words(' He said - "No, it\'s 3.5." ! … ') == [
        "He",
        "said",
        '"No,',
        "it's",
        '3.5."',
    ]
    assert language("fr").words("Vous ? « Oui »") == ["Vous", "Oui"]
    assert language("ru").words("") == language("zh").words("。 ") == []


def test_words_of_languages_without_spaces_are_those_of_jieba() -> None:
    assert language("zh").words("你好，我们今天讨论AI技术。 3.5倍！") == [
        *["你好", "我们", "今天", "讨论", "AI", "技术", "3.5", "倍"]
    ]
    assert language("ja").words("私は学生です。") == ["私", "は", "学生", "で", "す"]


def test_jieba_prints_nothing_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    languages._jieba.cache_clear()
    assert language("zh").words("我们") == ["我们"]
    assert (list(tmp_path.iterdir()), *capfd.readouterr()) == ([], "", "")


def test_languages_with_spaces_do_not_load_jieba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    languages._jieba.cache_clear()
    assert language("de").words("Das Haus") == ["Das", "Haus"]
    with pytest.raises(ImportError):
        language("zh").words("我们")


def test_a_language_that_is_not_known_is_named() -> None:
    with pytest.raises(ZooError, match="Unknown language 'xx'; choose one of: af, am, ar, "):
        language("xx")


def test_units_of_chinese_keep_the_spaces_of_the_text() -> None:
    chinese, german = language("zh"), language("de")
    text = " 用 Bill Gates 的 话 "
    spaced = chinese.with_spaces(text, chinese.units(text))
    assert chinese.join(spaced) == "用 Bill Gates 的 话"
    assert [unit.strip() for unit in spaced] == chinese.units(text)
    assert chinese.with_spaces("另一个", ["别", "的"]) == ["别", "的"]  # units of another text
    assert german.with_spaces("ein  Wort", ["ein", "Wort"]) == ["ein", "Wort"]
