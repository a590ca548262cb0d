"""What a search needs of a decoder, and what it returns: the contract between both.

A batch of streams is searched at once. Each stream has one row per beam; row = place of the stream
in the batch x beams + beam index. A finished stream can leave the batch, and its rows with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Stop = Callable[[list[int]], bool]  # receives the generated ids; returns whether to stop

FINISHED_SHARE = 0.1  # share of the decoded rows that finished streams may have


class Continuation(Protocol):
    """Decoder state of a search over a batch of streams."""

    @property
    def log_probs(self) -> Tensor:
        """(rows, vocabulary) log-probabilities of the next token of each row."""

    def fork(self, beams: int) -> None:
        """Replace the row of each stream by ``beams`` identical rows."""

    def step(self, tokens: Tensor, rows: Tensor | None = None) -> None:
        """Append one token to each row.

        Args:
            tokens: (rows,) next id of each row.
            rows: (rows,) for each new row, the index of the old row that the new row continues.
                Both rows belong to the same stream. None continues each row with its own token.
        """

    def keep(self, places: Sequence[int]) -> None:
        """Let finished streams leave the batch.

        Args:
            places: For each stream that stays, in the new order, its place in the batch so far.
        """

    def generated(self, row: int) -> Tensor:
        """Return decoder data of the tokens fed to ``row``, such as keys and values.

        The rows of the fed tokens come last, in order.
        """


class LateRows(Protocol):
    """Marks the rows of a search at whose newest token decoding may stop.

    Attributes:
        own: Whether a mark belongs to the token that was fed last. Otherwise, it belongs to the
            token that is generated next.
    """

    own: bool

    def __call__(self) -> Tensor:
        """Return one bool per row. Called once for each position: the prompt, then each step."""

    def keep(self, places: Sequence[int]) -> None:
        """Let finished streams leave the batch; see ``Continuation.keep``."""


class Drafts(Protocol):
    """Drafts of answers, which the decoder has processed together with the prompts.

    Attributes:
        drafts: Ids that may be the beginning of each stream's answer.
    """

    drafts: Sequence[list[int]]

    def draft_log_probs(self, stream: int) -> Tensor:
        """Return the log-probabilities (n, vocabulary) of the n ids of a draft."""

    def accept(self, lengths: Sequence[int]) -> None:
        """Continue after the first ids of each draft; the other ids are rejected.

        Args:
            lengths: Number of accepted ids of each stream.
        """


@dataclass(frozen=True, slots=True)
class Context:
    """Ids before an answer, which the repetition controls compare with generated ids.

    Attributes:
        earlier: Kept target ids, which the answer continues.
        prompt: Decoder input ids of the current request before the answer.
    """

    earlier: list[int]
    prompt: list[int]


@dataclass(frozen=True, slots=True)
class Answer:
    """Search result of one stream.

    Attributes:
        tokens: Generated ids without an end id.
        finished: Whether the model generated an end id.
        generated: ``Continuation.generated`` of the answer. It covers either all tokens or all
            tokens but the last.

    An answer that stopped early is not finished; see ``LateRows``.
    """

    tokens: list[int]
    finished: bool
    generated: Tensor


def staying(finished: Sequence[bool]) -> list[int] | None:
    """Return the places of the streams that stay, in their new order.

    Unfinished streams at the end of the batch move to the places of finished streams, because a
    decoder then moves the fewest keys and values.

    Args:
        finished: Whether the stream at each place of the batch is finished, not all of them.

    Returns:
        One place per unfinished stream, or None if the batch stays as it is: finished streams leave
        together, as soon as they have more than ``FINISHED_SHARE`` of the rows.
    """
    if sum(finished) <= FINISHED_SHARE * len(finished):
        return None
    size = len(finished) - sum(finished)
    moved = [place for place in range(size, len(finished)) if not finished[place]]
    return [place if not finished[place] else moved.pop() for place in range(size)]
