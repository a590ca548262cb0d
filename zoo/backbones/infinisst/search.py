"""Beam search of an InfiniSST turn: the common search with a length limit per speech chunk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from zoo.backbones.decoding.continuation import Answer, Continuation, SearchContext
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.decoding.search import search as search_text
from zoo.base.errors import ZooError, check_numbers


@dataclass(frozen=True, slots=True)
class TurnSearchConfig(SearchConfig):
    """Options of the beam search of a turn; the defaults are the values of section 4.3.

    ``SearchConfig`` documents the inherited options.

    Attributes:
        beams: Number of beams.
        no_repeat_ngram: Length of n-grams that must not occur twice; 0 allows all n-grams.
        repetition_penalty: Factor that lowers the scores of repeated ids; 1.0 has no effect.
        lookback: Number of earlier target ids that the repetition controls consider. None considers
            all target ids in the window.
        tokens_per_chunk: Maximum number of generated ids per speech chunk, end-of-turn id included.
            A turn of m chunks has at most m x ``tokens_per_chunk`` ids.
        at_limit: Ids to keep of a turn that reaches the limit. ``keep`` keeps all ids. ``drop``
            (released code) removes the last id.
    """

    beams: int = 4
    no_repeat_ngram: int = 5
    repetition_penalty: float = 1.2
    lookback: int | None = None
    tokens_per_chunk: int = 10
    at_limit: Literal["keep", "drop"] = "keep"

    def __post_init__(self) -> None:
        """Raises ZooError if an option is out of range or a turn could not have a single id."""
        SearchConfig.__post_init__(self)
        if self.loop_copies is not None:
            raise ZooError(
                "loop_copies is no option of InfiniSST, whose turns have few tokens; leave it null."
            )
        check_numbers("The search", least=1, tokens_per_chunk=self.tokens_per_chunk)
        check_numbers("The search", least=0, lookback=self.lookback)
        if self.at_limit == "drop" and self.tokens_per_chunk == 1:
            raise ZooError(
                "A search with at_limit=drop needs tokens_per_chunk of at least 2: no id could be "
                "kept."
            )


def search(
    turn: Continuation,
    config: TurnSearchConfig,
    *,
    contexts: Sequence[SearchContext],
    limits: Sequence[int],
    end: int,
    never: Sequence[int] = (),
) -> list[Answer]:
    """Generate a turn for each stream with ``common.search.search``, then apply ``at_limit``.

    Args:
        turn: Decoder with the prefilled prompts of the streams.
        config: Options of the search.
        contexts: Earlier ids and prompt of each stream, for the repetition controls.
        limits: Maximum number of generated ids of each stream, end-of-turn id included.
        end: End-of-turn id.
        never: Ids that are never generated.

    Returns:
        Generated ids of each stream, without the end-of-turn id.
    """
    answers = search_text(turn, config, contexts=contexts, limits=limits, ends=[end], never=never)
    if config.at_limit == "keep":
        return answers
    return [
        answer if answer.finished else replace(answer, tokens=answer.tokens[:-1])
        for answer in answers
    ]
