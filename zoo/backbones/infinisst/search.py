"""How InfiniSST generates a turn: the common search with limits per turn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from zoo.backbones.common.search import Answer, Context, Continuation, SearchConfig
from zoo.backbones.common.search import search as search_text
from zoo.errors import ZooError


@dataclass(frozen=True, slots=True)
class TurnSearchConfig(SearchConfig):
    """``SearchConfig`` with the defaults of section 4.3 and options of turns.

    Attributes:
        lookback: Earlier target ids that repetition controls consider; None: all in the window.
        tokens_per_chunk: A turn of m chunks has at most m times as many ids, its end included.
        at_limit: What is kept of a turn that reaches this limit. keep: all ids. drop (released
            code): all but the last.
    """

    beams: int = 4
    no_repeat_ngram: int = 5
    repetition_penalty: float = 1.2
    lookback: int | None = None
    tokens_per_chunk: int = 10
    at_limit: Literal["keep", "drop"] = "keep"

    def __post_init__(self) -> None:
        """Raises ZooError for a search that could generate nothing or would never end."""
        SearchConfig.__post_init__(self)
        if self.tokens_per_chunk < 1:
            raise ZooError(
                f"The search needs tokens_per_chunk of at least 1, not {self.tokens_per_chunk}."
            )
        if self.at_limit == "drop" and self.tokens_per_chunk == 1:
            raise ZooError(
                "A search with at_limit=drop needs tokens_per_chunk of at least 2: no id could be "
                "kept."
            )
        if self.lookback is not None and self.lookback < 0:
            raise ZooError(
                "The search needs a lookback of at least 0 target ids (or null), not "
                f"{self.lookback}."
            )


def search(
    turn: Continuation,
    config: TurnSearchConfig,
    *,
    contexts: Sequence[Context],
    limits: Sequence[int],
    end: int,
    never: Sequence[int] = (),
) -> list[Answer]:
    """``common.search.search``, then ``at_limit``."""
    answers = search_text(turn, config, contexts=contexts, limits=limits, end=end, never=never)
    if config.at_limit == "keep":
        return answers
    return [
        answer if answer.finished else replace(answer, tokens=answer.tokens[:-1])
        for answer in answers
    ]
