"""A small byte-level BPE for models trained here. Knows no prompt."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

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
    texts: Iterable[str], *, vocabulary_size: int, special_tokens: Sequence[str] = SPECIAL_TOKENS
) -> PreTrainedTokenizerFast:
    """Byte-level BPE learned from ``texts``; ids 0.. are the special tokens, then the 256 bytes, then the merges.

    Any text comes back from its ids with one leading space: a word is the same token at the start of a turn as inside
    it, which a small model would otherwise have to learn. ``vocabulary_size`` counts everything.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    named = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "pad_token": "<|pad|>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        additional_special_tokens=[token for token in special_tokens if token not in named.values()],
        clean_up_tokenization_spaces=False,
        **named,
    )
