"""Common functions of prompt builders: tokenisation, special tokens, and fields in braces."""

import re
from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from zoo.backbones.text.vocabulary import detokenise, token_ids
from zoo.base.errors import ZooError

ADVICE = "describe its own prompt there or name another tokenizer"  # of an error message


class ChatPrompt:
    """Base class of builders that convert a chat format to token ids.

    Attributes:
        tokenizer: Tokenizer of the language model.
        reserved: Special tokens, which are no text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        tokens = (str(token) for token in tokenizer.added_tokens_decoder.values())
        self.reserved = frozenset(token for token in tokens if token.strip())

    def ids(self, text: str) -> list[int]:
        """Tokenise a text without adding special tokens."""
        return token_ids(self.tokenizer, text)

    def text(self, ids: Sequence[int]) -> str:
        """Detokenise ids; special tokens are skipped."""
        return detokenise(self.tokenizer, ids)

    def single(self, token: str, *, advice: str) -> int:
        """Return the id of a special token.

        Args:
            token: String of the token.
            advice: Last part of the error message, which states a remedy.

        Raises:
            ZooError: If the tokenizer splits ``token`` into several ids.
        """
        ids = self.ids(token)
        if len(ids) != 1:
            raise ZooError(
                f"The tokenizer {self.tokenizer.name_or_path} has no single token {token!r}, which "
                f"backbone.template needs; {advice}."
            )
        return ids[0]


def find_special_tokens(texts: Sequence[str]) -> list[str]:
    """Return all distinct strings in angle brackets, the special tokens of a small tokenizer."""
    return list(dict.fromkeys(token for text in texts for token in re.findall(r"<[^<>\s]+>", text)))


def fill_fields(text: str, /, **fields: object) -> str | None:
    """Return ``text.format(**fields)``, or None if ``text`` contains unknown fields in braces."""
    try:
        return text.format(**fields)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
