"""Incremental conversion of token ids to text. Text is never tokenised again."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

CONTEXT_TOKENS = 4  # previous tokens that show the decoder whether a piece continues a word
REPLACEMENT = "\ufffd"  # a byte-level decoder returns this for an incomplete character


@dataclass(frozen=True, slots=True)
class Revision:
    """A change at the end of a text.

    Attributes:
        text: Text to append.
        retracted: Number of characters to delete before, at the end.
    """

    text: str
    retracted: int


def revise_text(before: str, after: str, *, words: bool) -> Revision:
    """Return the change that turns a text into another one.

    Args:
        before: The text.
        after: The other text.
        words: Whether a word that loses characters is written again as a whole.
    """
    pairs = enumerate(zip(before, after, strict=False))
    shorter = min(len(before), len(after))
    kept = next((place for place, (old, new) in pairs if old != new), shorter)
    if words and kept < len(before):
        while kept and not before[kept - 1].isspace():
            kept -= 1
    return Revision(text=after[kept:], retracted=len(before) - kept)


class TextStream:
    """Converts written token ids to text and holds back incomplete characters.

    Args:
        decode: Converts token ids to text without cleaning up spaces.
        separator: String that is inserted between two independent texts.
    """

    def __init__(self, *, decode: Callable[[list[int]], str], separator: str) -> None:
        self._decode = decode
        self._separator = separator
        self._context: list[int] = []  # ids whose text has been returned
        self._pending: list[int] = []  # ids whose text ends in an incomplete character
        self._returned = 0  # characters of the pending text that have been returned
        self._at_start = True  # no character of the current text has been returned
        self._has_text = False  # some text has been returned since the stream began
        self._revisable: list[int] = []  # ids of the current text, if it is revised

    def push(self, token_ids: Tensor, *, fresh: bool) -> str:
        """Append token ids and return the text that they add.

        Args:
            token_ids: (n,) written token ids.
            fresh: Whether the ids begin an independent text (a turn or a new segment) instead of
                continuing the previous ids. An incomplete character before them is dropped.
        """
        if fresh:
            self.begin_text()
        self._pending += token_ids.tolist()

        context_length = len(self._decode(self._context))
        pending_text = self._decode(self._context + self._pending)[context_length:]
        complete = pending_text.rstrip(REPLACEMENT)

        text = complete[self._returned :].replace(REPLACEMENT, "")
        self._returned = len(complete)
        if complete == pending_text:
            self._move_pending_to_context()
        return self._join(text)

    def begin_text(self) -> None:
        """Let the next ids begin an independent text; an incomplete character is dropped."""
        self._context, self._pending, self._revisable = [], [], []
        self._returned = 0
        self._at_start = True

    def revise(self, delete: int, token_ids: Tensor, *, words: bool) -> Revision:
        """Replace the last written ids and return the text that changes thereby.

        A stream of text is either revised or continued by ``push``.

        Args:
            delete: Number of ids to delete at the end.
            token_ids: (n,) ids that take their place.
            words: Whether a word that loses characters is written again as a whole.
        """
        kept = len(self._revisable) - delete
        begin = max(kept - CONTEXT_TOKENS, 0)
        old = self._revisable[begin:]
        self._revisable[kept:] = token_ids.tolist()
        texts = [self._complete(ids, begin) for ids in (old, self._revisable[begin:])]
        revision = revise_text(*texts, words=words)
        return replace(revision, text=self._join(revision.text))

    def _complete(self, token_ids: list[int], begin: int) -> str:
        """Return the text of ids without incomplete characters; the first text has no space."""
        text = self._decode(token_ids).replace(REPLACEMENT, "")
        return text if begin else text.lstrip()

    def _move_pending_to_context(self) -> None:
        """Move the pending ids to the context and keep only the last few context ids.

        The kept ids must decode to some text; otherwise the decoder drops a space before the next
        word. They must begin with a complete character: with byte fallback, one broken byte breaks
        the whole sequence of bytes that contains it.
        """
        context = self._context + self._pending
        for size in range(CONTEXT_TOKENS, len(context)):
            text = self._decode(context[-size:])
            if text.strip() and REPLACEMENT not in text:
                context = context[-size:]
                break
        self._context = context
        self._pending = []
        self._returned = 0

    def _join(self, text: str) -> str:
        """Strip the start of an independent text and insert the separator before it."""
        if self._at_start:
            text = text.lstrip()
            if text and self._has_text:
                text = self._separator + text
            self._at_start = not text
        self._has_text = self._has_text or bool(text)
        return text
