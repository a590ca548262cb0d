"""Characters as tokens: words, sentences and text."""

import pytest

from zoo.base.languages import language
from zoo.extras.chat_server import characters


def starts(text: str, code: str, words: characters.Words = "jieba") -> str:
    """The text with a bar before each character that begins a word."""
    found = characters.word_starts(text, language(code), words).tolist()
    return "".join(f"|{sign}" if start else sign for sign, start in zip(text, found, strict=True))


@pytest.mark.parametrize("text", ["Grüße, 你好 und 😀!", "", "a"])
def test_the_text_of_ids_is_the_text(text: str) -> None:
    assert characters.text_of(characters.token_ids(text).tolist()) == text


def test_a_space_begins_a_word_and_the_first_character_does() -> None:
    assert starts("das alte Haus.", "de") == "|das| alte| Haus."
    assert starts(" Haus", "de") == "| Haus"
    assert starts("", "de") == ""


def test_words_without_spaces_are_those_of_jieba_or_all_characters() -> None:
    assert starts("早上好，今天天气很好。", "zh") == "|早上好，|今天天气|很|好。"
    assert starts("好 天", "zh", "characters") == "|好 |天"


def test_a_word_is_complete_when_the_next_one_begins() -> None:
    german = language("de")
    found = [characters.complete_words(text, german, "jieba") for text in ("das", "das ", "a b c")]
    assert found == [0, 1, 2]


def test_sentence_ends_are_marked_in_both_scripts() -> None:
    assert characters.sentence_ends("a. 好。").tolist() == [False, True, False, False, True]


def test_white_space_is_a_single_space_and_incomplete_characters_are_dropped() -> None:
    assert characters.clean_text("a\n\n b\tc\ufffd\ud800") == "a b c"
