"""What a search needs of a decoder, and what it returns: the contract between both.

A batch of streams is searched at once. Each stream has one row per beam; row = index of the stream
in the batch x beams + beam index. A finished stream can leave the batch, and its rows with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Stop = Callable[[list[int]], bool]  # receives the generated ids; returns whether to stop

# Receives the generated ids and a number; returns at most as many ids that may follow them.
Guess = Callable[[list[int], int], list[int]]

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

    def keep(self, indices: Sequence[int]) -> None:
        """Let finished streams leave the batch.

        Args:
            indices: For each stream that stays, in the new order, its index in the batch so far.
        """

    def generated(self, row: int) -> Tensor:
        """Return decoder data of the tokens fed to ``row``, such as keys and values.

        The rows of the fed tokens come last, in order.
        """


class StopMarks(Protocol):
    """Marks the rows of a search at which decoding may stop, because a policy reads no later token.

    Example:
        A row generates A, B and C after its prompt, and the policy's rule marks B. The object is
        called after the prompt, after A was fed, after B was fed, ... With ``of_fed_token``, the
        calls return False, False, True: B was fed before the third call. Without, they return
        False, True: B is generated after the second call. Either way, the answer is A B.

    Attributes:
        of_fed_token: Whether a mark belongs to the token that was fed last. Otherwise, it belongs
            to the token that is generated next.
    """

    of_fed_token: bool

    def __call__(self) -> Tensor:
        """Return one bool per row. Called once for each position: the prompt, then each step."""

    def keep(self, indices: Sequence[int]) -> None:
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


class GuessedContinuation(Continuation, Protocol):
    """A continuation that computes guessed ids together with the token before them."""

    def step_guessed(self, tokens: Tensor, guesses: Sequence[list[int]]) -> Tensor:
        """Append one token and then guessed ids to each row.

        Args:
            tokens: (rows,) next id of each row. Each stream has one row.
            guesses: Ids that may follow the token of each row; their numbers may differ.

        Returns:
            (rows, 1 + most guessed ids, vocabulary) log-probabilities after the token and after
            each guessed id; those after a row's last guess are undefined.
        """

    def keep_guessed(self, lengths: Sequence[int]) -> None:
        """Continue after the first ids of each guess; the other ids are rejected.

        Args:
            lengths: Number of kept ids of each row.
        """


@dataclass(frozen=True, slots=True)
class Guesses:
    """A decoder that verifies guessed ids, and the functions that guess them.

    Attributes:
        continuation: The decoder after the prompts.
        streams: What guesses the ids of each stream.
    """

    continuation: GuessedContinuation
    streams: Sequence[Guess]


@dataclass(frozen=True, slots=True)
class SearchContext:
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
        looped: The answer ended because its text looped; all copies but the first were removed.

    An answer that stopped early is not finished; see ``StopMarks``.
    """

    tokens: list[int]
    finished: bool
    generated: Tensor
    looped: bool = False


def staying(finished: Sequence[bool]) -> list[int] | None:
    """Return the indices of the streams that stay in the batch, in their new order.

    Unfinished streams at the end of the batch replace finished ones, because a decoder then moves
    the fewest keys and values.

    Example:
        If streams 0 and 2 of five streams are finished, the indices are [4, 1, 3]: stream 4
        replaces stream 0, and streams 1 and 3 remain; stream 3 is the new stream 2.

    Args:
        finished: Whether each stream of the batch is finished, not all of them.

    Returns:
        One index per unfinished stream, or None if the batch stays as it is: finished streams leave
        together, as soon as they have more than ``FINISHED_SHARE`` of the rows.
    """
    if sum(finished) <= FINISHED_SHARE * len(finished):
        return None
    size = len(finished) - sum(finished)
    moved = [index for index in range(size, len(finished)) if not finished[index]]
    return [moved.pop() if finished[index] else index for index in range(size)]
