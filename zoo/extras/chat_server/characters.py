"""Characters as tokens of a text whose tokenizer is not known: an id is a Unicode code point."""

import re
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from zoo.backbones.text.vocabulary import STRONG
from zoo.base.languages import Language
from zoo.streaming.text import REPLACEMENT

Words = Literal["jieba", "characters"]


def clean_text(text: str) -> str:
    """Return a text with single spaces for white space, and without incomplete characters."""
    whole = text.replace(REPLACEMENT, "").encode(errors="ignore").decode()
    return re.sub(r"\s+", " ", whole)


def token_ids(text: str) -> Tensor:
    """Return the ids (n,) of a text."""
    return torch.tensor([ord(sign) for sign in text], dtype=torch.long)


def text_of(ids: Sequence[int]) -> str:
    """Return the text of ids."""
    return "".join(map(chr, ids))


def word_starts(text: str, language: Language, words: Words) -> Tensor:
    """Return (n,) bool, True where a character begins a word. The first one always does.

    Args:
        text: A cleaned text.
        language: Language of the text. With spaces between words, a space begins a word.
        words: Words of a language without spaces: those of jieba, or all characters. Punctuation
            and spaces count as part of the previous word of jieba.
    """
    if language.unit == "word":
        starts = [sign == " " for sign in text]
    elif words == "characters":
        starts = [sign != " " for sign in text]
    else:
        starts = [False] * len(text)
        end = 0
        for word in language.words(text):
            begin = text.index(word, end)
            end = begin + len(word)
            starts[begin] = True
    return torch.tensor([True, *starts[1:]] if starts else [], dtype=torch.bool)


def complete_words(text: str, language: Language, words: Words) -> int:
    """Return the number of words that another word follows."""
    return int(word_starts(text, language, words)[1:].sum())


def sentence_ends(text: str) -> Tensor:
    """Return (n,) bool, True where a character ends a sentence."""
    return torch.tensor([STRONG.match(sign) is not None for sign in text], dtype=torch.bool)
