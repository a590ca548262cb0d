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
        self._context: list[int] = []  # ids whose text is out
        self._pending: list[int] = []  # ids whose text is out but for a last, unfinished character
        self._shown = 0  # characters of the pending text that are out
        self._begins = True  # nothing of the present text is out yet
        self._started = False

    def push(self, token_ids: Tensor, *, fresh: bool) -> str:
        """Text that ``token_ids`` (n,) add.

        fresh: the tokens begin a text of their own (a turn, a new segment) rather than continue the last ones; a
        character left unfinished before them is lost.
        """
        if fresh:
            self._context, self._pending, self._shown, self._begins = [], [], 0, True
        self._pending += token_ids.tolist()
        known = len(self._decode(self._context))
        pending = self._decode(self._context + self._pending)[known:]
        whole = pending.rstrip(UNFINISHED)
        text = whole[self._shown :].replace(UNFINISHED, "")
        self._shown = len(whole)
        if whole == pending:
            self._settle()
        return self._join(text)

    def _settle(self) -> None:
        """Move the pending ids to the context, which keeps only the last few.

        They must decode to text, else a space before what follows is lost, and begin with a whole character: with
        byte fallback, one broken byte breaks the whole run of bytes it stands in.
        """
        context = self._context + self._pending
        for recent in (context[-size:] for size in range(CONTEXT_TOKENS, len(context))):
            text = self._decode(recent)
            if text.strip() and UNFINISHED not in text:
                context = recent
                break
        self._context, self._pending, self._shown = context, [], 0

    def _join(self, text: str) -> str:
        if self._begins:
            text = text.lstrip()
            if text and self._started:
                text = self._separator + text
            self._begins = not text
        self._started = self._started or bool(text)
        return text
