"""From token ids to text, piece by piece. Ids are the truth: nothing is ever tokenised again."""

from collections.abc import Callable

from torch import Tensor

CONTEXT_TOKENS = 4  # kept so that the decoder sees whether a piece continues a word
UNFINISHED = "\ufffd"  # what a byte-level decoder prints for half a character


class TextStream:
    """Turns written token ids into text; holds back characters whose bytes have not all been written.

    decode: ids (n,) -> text, without cleaning up spaces. separator: what joins two texts that start afresh.
    """

    def __init__(self, *, decode: Callable[[list[int]], str], separator: str) -> None:
        self._decode = decode
        self._separator = separator
        self._context: list[int] = []
        self._pending: list[int] = []
        self._started = False

    def push(self, token_ids: Tensor, *, fresh: bool, last: bool = False) -> str:
        """Text that ``token_ids`` (n,) add.

        fresh: the tokens begin a text of their own (a turn, a new segment) rather than continue the last ones.
        last: nothing follows, so unfinished characters are dropped instead of held back.
        """
        head = self._flush() if fresh and self._pending else ""
        if fresh:
            self._context = []
        self._pending += token_ids.tolist()
        known = self._decode(self._context)
        whole = self._decode(self._context + self._pending)
        if whole.endswith(UNFINISHED) and not last:
            return head
        text = whole[len(known) :].replace(UNFINISHED, "") if last else whole[len(known) :]
        begins = not self._context
        self._context = (self._context + self._pending)[-CONTEXT_TOKENS:]
        self._pending = []
        return head + self._join(text, begins=begins)

    def _flush(self) -> str:
        known = self._decode(self._context)
        text = self._decode(self._context + self._pending)[len(known) :].replace(UNFINISHED, "")
        begins, self._pending = not self._context, []
        return self._join(text, begins=begins)

    def _join(self, text: str, *, begins: bool) -> str:
        if begins:
            text = text.lstrip()
            if text and self._started:
                text = self._separator + text
        self._started = self._started or bool(text)
        return text
