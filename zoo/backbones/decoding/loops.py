"""Loops of an autoregressive decoder: the same n-gram again and again. Ours, in no paper.

A text that loops has lost the speech: what follows repeats, whatever the audio contains. Whisper
finds such texts by their compression ratio once they are complete (Radford et al., 2023, section
4.5); a stream must end them before they are written.
"""

from collections.abc import Sequence
from dataclasses import replace

from zoo.backbones.decoding.continuation import Answer, Stop

MIN_TOKENS = 8  # of all copies: people repeat a short word more often than a clause


def loop_period(ids: Sequence[int], copies: int) -> int | None:
    """Return the length of the n-gram with which a text loops at its end.

    Example:
        The last ids of 7 1 2 1 2 1 2 1 2 are four copies of 1 2: the period is 2 for ``copies``
        up to 4. The three copies of 1 2 1 2 1 2 are no loop, since they have six ids only.

    Args:
        ids: Token ids of the text.
        copies: Number of equal n-grams in a row, at least 2, that make a loop of ``MIN_TOKENS`` ids
            or more.

    Returns:
        The shortest period in tokens. None: the text does not end with a loop.
    """
    for period in range(1, len(ids) // copies + 1):
        length = max(copies * period, MIN_TOKENS)
        if length <= len(ids) and all(
            ids[-index] == ids[-index - period] for index in range(1, length - period + 1)
        ):
            return period
    return None


def loop_stop(earlier: Sequence[int], copies: int, stop: Stop | None) -> Stop:
    """Return the stop condition of an answer that may loop.

    Args:
        earlier: Ids before the answer, which belong to the loop if they are equal.
        copies: See :func:`loop_period`.
        stop: Another stop condition of the same answer, or None.
    """

    def loops_or_stops(tokens: list[int]) -> bool:
        if stop is not None and stop(tokens):
            return True
        return loop_period([*earlier, *tokens], copies) is not None

    return loops_or_stops


def without_loop(answer: Answer, earlier: Sequence[int], copies: int) -> Answer:
    """Remove all copies but the first from the end of an answer that loops.

    Args:
        answer: Result of a search.
        earlier: Ids before the answer. They stay, so the answer of a loop that they contain is
            empty.
        copies: See :func:`loop_period`.
    """
    ids = [*earlier, *answer.tokens]
    period = loop_period(ids, copies)
    if period is None:
        return answer
    end = len(ids)
    while end > period and ids[end - 1] == ids[end - 1 - period]:
        end -= 1
    removed = min(len(ids) - end, len(answer.tokens))
    return replace(
        answer,
        tokens=answer.tokens[: len(answer.tokens) - removed],
        finished=True,
        looped=True,
        generated=answer.generated[: max(len(answer.generated) - removed, 0)],
    )
