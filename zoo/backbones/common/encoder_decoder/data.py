"""Decoder inputs and labels of excerpts, for encoder-decoders."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.teacher_forcing import IGNORED
from zoo.backbones.common.text.vocabulary import token_ids
from zoo.data.excerpts import Excerpt


def decoder_rows(
    tokenizer: PreTrainedTokenizerBase, excerpt: Excerpt, *, opening: Sequence[int], end: int
) -> tuple[list[int], list[int]]:
    """Inputs and labels of an excerpt's text; its given prefix is fed, but has no loss.

    Args:
        tokenizer: Of the decoder.
        excerpt: Text, and the prefix of it that is given.
        opening: Ids before the text, at least one.
        end: Id that ends the text.

    Returns:
        Ids, and the id that each predicts, of equal length.
    """
    inputs = [*opening, *token_ids(tokenizer, excerpt.text)]
    given = len(opening) - 1 + len(token_ids(tokenizer, excerpt.prefix))
    return inputs, [*[IGNORED] * given, *inputs[1 + given :], end]
