"""What all prompts share: ids of strings, single tokens, and instructions with names in braces."""

import re
from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.text.vocabulary import detokenise, token_ids
from zoo.errors import ZooError


class ChatPrompt:
    """Base of classes that build the ids of a chat format."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer

    def ids(self, text: str) -> list[int]:
        """Ids of a text, no special token added."""
        return token_ids(self.tokenizer, text)

    def text(self, ids: Sequence[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return detokenise(self.tokenizer, ids)

    def single(self, token: str, *, advice: str) -> int:
        """The id of a token.

        Raises ZooError, with the advice, where the tokenizer has no such token.
        """
        ids = self.ids(token)
        if len(ids) != 1:
            raise ZooError(
                f"The tokenizer {self.tokenizer.name_or_path} has no single token {token!r}, which "
                f"backbone.template needs; {advice}."
            )
        return ids[0]


def bracketed(texts: Sequence[str]) -> list[str]:
    """All strings in angle brackets, once each: the special tokens of a small tokenizer."""
    return list(dict.fromkeys(token for text in texts for token in re.findall(r"<[^<>\s]+>", text)))


def formatted(text: str, **fields: object) -> str | None:
    """``text.format(**fields)``, or None where it has other names in braces."""
    try:
        return text.format(**fields)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
