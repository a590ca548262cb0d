"""Decoder inputs and labels of training excerpts, for encoder-decoders."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.excerpt import TrainingExcerpt
from zoo.backbones.text.vocabulary import token_ids


def decoder_rows(
    tokenizer: PreTrainedTokenizerBase,
    excerpt: TrainingExcerpt,
    *,
    opening: Sequence[int],
    end: int,
) -> tuple[list[int], list[int]]:
    """Return the decoder inputs and labels of an excerpt's text.

    The excerpt's prefix is part of the inputs, but its tokens have no loss.

    Args:
        tokenizer: Tokenizer of the decoder.
        excerpt: Excerpt with its text and the prefix of the text that has no loss.
        opening: Decoder ids before the text, such as start and language ids; at least one id.
        end: Id that ends the text.

    Returns:
        Input ids and labels of equal length. Label t is the id that follows input t, or
        ``IGNORED``.
    """
    inputs = [*opening, *token_ids(tokenizer, excerpt.text)]
    prefix_length = len(token_ids(tokenizer, excerpt.prefix))
    num_ignored = len(opening) - 1 + prefix_length
    labels = [*[IGNORED] * num_ignored, *inputs[1 + num_ignored :], end]
    return inputs, labels
