"""Training of small byte-level BPE tokenizers."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from zoo.backbones.base import TokenizerCorpus
from zoo.base.types import UnitKind

SPECIAL_TOKENS = (
    "<|pad|>",
    "<|begin_of_text|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|user|>",
    "<|assistant|>",
    "<|speech|>",
)


def train_tokenizer(
    texts: Iterable[str],
    *,
    vocabulary_size: int,
    unit: UnitKind = "word",
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer.

    The vocabulary consists of the special tokens, the 256 bytes and the merges, in this order. A
    text that is split into turns between two units (words or characters) has the same ids as the
    whole text, so a small model need not learn several tokenisations.

    Args:
        texts: Training texts.
        vocabulary_size: Maximum number of ids, special tokens and bytes included.
        unit: word: tokens are parts of words, and a leading space is added to each text. char: no
            token is longer than one character.
        special_tokens: Special tokens, which get the first ids.
    """
    special_tokens = list(dict.fromkeys(special_tokens))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    if unit == "char":
        characters = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [characters, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=special_tokens,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    roles = {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|eot_id|>",
        "pad_token": "<|pad|>",
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        additional_special_tokens=[
            token for token in special_tokens if token not in roles.values()
        ],
        clean_up_tokenization_spaces=False,
        **roles,
    )


class ChatTemplate(Protocol):
    """Strings of a chat format."""

    @property
    def instruction(self) -> str:
        """Instruction, with optional fields {source}, {target}, {transcript}, {translation}."""

    @property
    def tokens(self) -> list[str]:
        """Special tokens of the chat format."""


def train_chat_tokenizer(
    corpus: TokenizerCorpus, template: ChatTemplate
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE on transcripts, translations and the instruction of a chat format."""
    read: list[str] = []
    for transcript, (source, target) in zip(corpus.transcripts, corpus.directions, strict=True):
        instruction = template.instruction.format(
            source=source.name, target=target.name, transcript="", translation=""
        )
        read += [transcript, instruction]
    return train_tokenizer(
        [*corpus.translations, *read],
        vocabulary_size=corpus.size,
        unit=corpus.unit,
        special_tokens=[*SPECIAL_TOKENS, *template.tokens],
    )
