"""What to say in a turn: the search of all backbones with the options of InfiniSST's papers and released code."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import zoo.backbones.common.search as shared
from zoo.backbones.common.search import Answer, Context, Continuation, following
from zoo.errors import ZooError


@dataclass(frozen=True, slots=True)
class SearchConfig(shared.SearchConfig):
    """How a turn is generated (section 4.3). beams: 1 is greedy.

    length_penalty: finished beams are ranked by log-probability / length ** length_penalty, the end of turn counted.
    no_repeat_ngram: no n-gram of this size twice (0: off). repetition_penalty: factor on the log-probability of ids
    that are there already (1: off). lookback: how much of earlier turns counts, the last ``lookback`` target ids or,
    with None, all that are still in the window.
    repetition: stream: a turn goes on with the text of earlier ones, so n-grams may begin in those, and the penalty
    is on all that was written, never on the end of turn. turn (released code): an n-gram of earlier turns is forbidden
    where it would stand in this turn whole, and the penalty is on the ids of this turn alone, its prompt included:
    on the end of turn and, in the first turn, on the instruction's words.
    tokens_per_chunk: a turn of m chunks has at most m times as many ids, its end included. at_limit: what of an answer
    that has reached them without its end is said: keep: all. drop (released code): all but the last id.
    suppress: texts; no token that contains one is ever said (the last column of the paper's table 2).
    """

    beams: int = 4
    no_repeat_ngram: int = 5
    repetition_penalty: float = 1.2
    repetition: Literal["stream", "turn"] = "stream"
    lookback: int | None = None
    tokens_per_chunk: int = 10
    at_limit: Literal["keep", "drop"] = "keep"

    def __post_init__(self) -> None:
        """Raises ZooError for a search that could say nothing or would never end."""
        shared.SearchConfig.__post_init__(self)
        if self.tokens_per_chunk < 1:
            raise ZooError(
                f"The search needs tokens_per_chunk of at least 1, not {self.tokens_per_chunk}."
            )
        if self.repetition == "turn" and self.no_repeat_ngram == 1:
            raise ZooError(
                "A search with repetition=turn needs a no_repeat_ngram other than 1: no turn could end."
            )
        if self.at_limit == "drop" and self.tokens_per_chunk == 1:
            raise ZooError(
                "A search with at_limit=drop needs tokens_per_chunk of at least 2: nothing could be said."
            )
        if self.lookback is not None and self.lookback < 0:
            raise ZooError(
                f"The search needs a lookback of at least 0 target ids (or null), not {self.lookback}."
            )

    def here(self, context: Context, answer: list[int]) -> list[int]:
        """Ids that the repetition penalty is on and that n-grams may begin in."""
        return (context.earlier if self.repetition == "stream" else context.prompt) + answer

    def forbidden(self, context: Context, here: list[int]) -> list[int]:
        """Ids that would end an n-gram a second time."""
        forbidden = following(here, here, self.no_repeat_ngram)
        if self.repetition == "turn":
            forbidden += following(here, context.earlier, self.no_repeat_ngram)
        return forbidden


def search(
    turn: Continuation,
    config: SearchConfig,
    *,
    contexts: Sequence[Context],
    limits: Sequence[int],
    end: int,
    never: Sequence[int] = (),
) -> list[Answer]:
    """One answer per stream. limits: most ids per answer. end: the end-of-turn id. never: ids that are never said."""
    answers = shared.search(turn, config, contexts=contexts, limits=limits, end=end, never=never)
    if config.at_limit == "drop":
        answers = [
            answer if answer.finished else replace(answer, tokens=answer.tokens[:-1])
            for answer in answers
        ]
    return answers
