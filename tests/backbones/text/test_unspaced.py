"""Chinese words begin at jieba's boundaries for any pieces of the tokenizer."""

from itertools import pairwise

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.backbones.text.unspaced import UnspacedWords
from zoo.base.languages import language

TEXT = "他来到了网易杭研大厦，今天 2026 年！"
WORDS = ["他", "来到", "了", "网易", "杭研", "大厦", "今天", "2026", "年"]


def sentencepiece() -> PreTrainedTokenizerBase:
    """Three pieces of two characters, one with punctuation in it; bytes for everything else."""
    pieces = [
        "<unk>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "\u2581",
        "来到",
        "大厦",
        "，今",
    ]
    merges = [("来", "到"), ("大", "厦"), ("，", "今")]
    pieces += [sign for pair in merges for sign in pair]
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


@pytest.mark.parametrize("merged", [False, True])
def test_bytes_and_pieces(merged: bool) -> None:
    texts = [TEXT] * 9 if merged else []
    tokenizer = train_tokenizer(texts, vocabulary_size=340, unit="char")
    assert cut(tokenizer) == [
        "他",
        "来到",
        "了",
        "网易",
        "杭研",
        "大厦，",
        "今天 ",
        "2026 ",
        "年！",
    ]


def test_a_word_that_begins_within_a_piece_belongs_to_the_one_before() -> None:
    assert cut(sentencepiece()) == [
        "他",
        "来到",
        "了",
        "网易",
        "杭研",
        "大厦，今天 ",
        "2026 ",
        "年！",
    ]


def cut(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The text, cut in front of each token that begins a word.

    Half characters and unknown ids begin no word.
    """
    chinese = language("zh")
    assert chinese.words(TEXT) == WORDS
    vocabulary = UnspacedWords(tokenizer, chinese)
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    starts = vocabulary.word_starts(torch.tensor(ids))
    assert vocabulary.words(ids) == int(starts.sum()) - 1
    assert vocabulary.word_starts(torch.tensor([*ids, 9999]))[-1:].tolist() == [False]
    assert (
        vocabulary.word_starts(torch.tensor(ids[:-1]))[: len(ids) - 1].tolist()
        == starts[:-1].tolist()
    )
    places = [*starts.nonzero().flatten().tolist(), len(ids)]
    return [tokenizer.decode(ids[a:b]) for a, b in pairwise(places)]
