"""Free-standing punctuation marks are no words."""

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from tests.backbones.text.test_unspaced import sentencepiece
from zoo.backbones.text.spoken import SpacedWords, Vocabularies
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.backbones.text.unspaced import UnspacedWords
from zoo.base.languages import language

TEXTS = (
    " Und ich sagte – nun ja – nein.",
    " Ja . Das ( 3 ) ist es ... vielleicht !",
    " Über „ Äpfel “",
)
GERMAN = language("de")


def byte_level() -> PreTrainedTokenizerBase:
    return train_tokenizer(TEXTS * 9, vocabulary_size=400)


# The small SentencePiece spells other letters and marks in bytes, which alone may be either.
@pytest.mark.parametrize(
    ("make", "text"),
    [*((byte_level, text) for text in TEXTS), (sentencepiece, TEXTS[1])],
)
def test_words_are_those_of_the_language(make, text: str) -> None:
    tokenizer = make()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    vocabulary = SpacedWords(tokenizer)
    starts = vocabulary.word_starts(torch.tensor(ids))
    assert int(starts.sum()) == len(GERMAN.words(text))
    assert vocabulary.words(ids) == int(starts.sum()) - 1
    before = [tokenizer.decode(ids[:end]) for end in starts.nonzero().flatten().tolist()[1:]]
    assert [len(GERMAN.words(one)) for one in before] == list(range(1, len(before) + 1))


def test_no_tokens_have_no_words() -> None:
    vocabulary = SpacedWords(byte_level())
    assert vocabulary.word_starts(torch.tensor([], dtype=torch.long)).tolist() == []
    assert vocabulary.words([]) == 0


def test_each_kind_of_language_has_its_words() -> None:
    tokenizer = sentencepiece()
    words = Vocabularies(tokenizer, "jieba")
    assert isinstance(words.of(GERMAN), SpacedWords)
    assert words.of(GERMAN) is words.of(language("es"))
    assert isinstance(words.of(language("zh")), UnspacedWords)
    assert words.of(language("zh")) is not words.of(language("ja"))
    characters = Vocabularies(tokenizer, "characters").of(language("zh"))
    assert (type(characters).__name__, characters.unit) == ("Vocabulary", "char")
