"""Words and sentences by token, for byte-level and sentencepiece tokenizers."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from zoo.backbones.text.vocabulary import Vocabulary, containing
from zoo.base.errors import ZooError

LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)


def bytes_of(text: str) -> str:
    """The piece of a byte-level tokenizer for ``text``, as the tokenizers library spells it."""
    return "".join(piece for piece, _ in LEVEL.pre_tokenize_str(text))


def tokenizer(pieces: list[str], *, byte_level: bool) -> PreTrainedTokenizerFast:
    backend = Tokenizer(
        models.BPE(vocab={piece: token for token, piece in enumerate(pieces)}, merges=[])
    )
    backend.decoder = decoders.ByteLevel() if byte_level else decoders.Metaspace()
    pieces_tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    pieces_tokenizer.add_special_tokens(
        {"eos_token": "</s>", "additional_special_tokens": ["__deu__", ".. ▁Ġ"]}
    )
    return pieces_tokenizer


EXPECTED = {  # piece: (begins a word, begins a character, ends a sentence)
    "▁Haus": (True, True, False),
    "tür": (False, True, False),
    "▁": (True, False, False),
    "Baum": (False, True, False),
    ".": (False, True, True),
    "▁3.": (True, True, True),
    "?!": (False, True, True),
    "你": (False, True, False),
    "好。": (False, True, True),
    "<0xE4>": (False, True, False),
    "<0xBD>": (False, False, False),
    "<0xA0>": (False, False, False),
    "<0x41>": (False, True, False),
    "；": (False, True, True),
}
SENTENCEPIECE = list(EXPECTED)


def test_sentencepieces() -> None:
    pieces_tokenizer = tokenizer(SENTENCEPIECE, byte_level=False)
    words, characters = Vocabulary(pieces_tokenizer, "word"), Vocabulary(pieces_tokenizer, "char")
    for token, piece in enumerate(SENTENCEPIECE):
        found = (bool(words.starts[token]), bool(characters.starts[token]), bool(words.ends[token]))
        assert found == EXPECTED[piece], piece
    assert characters.ends.equal(words.ends)


def test_byte_level_pieces() -> None:
    first, second, third = (LEVEL.pre_tokenize_str("你")[0][0][place] for place in range(3))
    pieces = [bytes_of(text) for text in (" Haus", "tür", " ", "。", "好！", "!", "über")]
    pieces += [first, second, third, first + second, third + bytes_of("。"), "Ã", "Ń"]
    pieces_tokenizer = tokenizer(pieces, byte_level=True)
    words, characters = Vocabulary(pieces_tokenizer, "word"), Vocabulary(pieces_tokenizer, "char")
    size = len(pieces)
    assert words.starts[:size].tolist() == [True, False, True] + [False] * 11
    # Ń is 0xAD, the one byte within characters that is spelled out of turn
    within_characters = {8, 9, 11, 13}
    assert characters.starts[:size].tolist() == [
        place not in within_characters and place != 2 for place in range(size)
    ]
    assert words.ends[:size].nonzero().flatten().tolist() == [3, 4, 5, 11]


@pytest.mark.parametrize("unit", ["word", "char"])
def test_special_tokens_and_ids_beyond_begin_and_end_nothing(unit: str) -> None:
    pieces_tokenizer = tokenizer(SENTENCEPIECE, byte_level=False)
    vocabulary = Vocabulary(pieces_tokenizer, unit)
    special = torch.tensor(
        [0, *pieces_tokenizer.added_tokens_decoder, len(vocabulary.starts), 10**6]
    )
    assert len(special) == 6
    assert vocabulary.word_starts(special).tolist() == [True] + [False] * 5
    assert not vocabulary.sentence_ends(special).any()


def test_what_comes_first_begins_a_word_and_a_space_takes_what_follows_along() -> None:
    vocabulary = Vocabulary(tokenizer(SENTENCEPIECE, byte_level=False), "word")
    ids = torch.tensor([1, 4, 2, 3, 4, 0])  # tür . ▁ Baum . ▁Haus
    assert vocabulary.word_starts(ids).tolist() == [True, False, True, False, False, True]
    assert vocabulary.sentence_ends(ids).tolist() == [False, True, False, False, True, False]
    assert vocabulary.word_starts(ids[:0]).shape == vocabulary.sentence_ends(ids[:0]).shape == (0,)
    assert bool(vocabulary.starts[1]) is False


def test_words_that_are_whole_for_sure() -> None:
    vocabulary = Vocabulary(tokenizer(SENTENCEPIECE, byte_level=False), "word")
    ids = [1, 4, 2, 3, 4, 0]
    assert [vocabulary.words(ids[:size]) for size in range(7)] == [0, 0, 0, 1, 1, 1, 2]


def test_suppressed_texts_by_token() -> None:
    pieces_tokenizer = tokenizer(SENTENCEPIECE, byte_level=False)
    assert containing(pieces_tokenizer, ["!", "tür"]) == [1, 6]
    assert containing(pieces_tokenizer, []) == []
    with pytest.raises(ZooError, match="No token contains '__deu__'"):
        containing(pieces_tokenizer, ["__deu__"])
