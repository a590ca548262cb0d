"""By hand, over a table of scores.

Against Hugging Face's: tests/backbones/infinisst and tests/backbones/architectures/encoder_decoder.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.backbones.decoding.continuation import Answer, SearchContext, staying
from zoo.backbones.decoding.search import SearchConfig, search
from zoo.base.errors import ZooError

END = 0
Script = dict[tuple[int, ...], list[float]]


class Table:
    """A continuation whose next token depends on a row's last two: ``script`` has the scores.

    What is kept of a token is its id and the row's first, so that rows cannot be confused.
    """

    def __init__(self, script: Script, streams: int) -> None:
        self.script = script
        self.beams = 1
        self.texts: list[list[int]] = [[] for _ in range(streams)]
        self.executed: list[int] = []  # rows of each step

    @property
    def log_probs(self) -> Tensor:
        return torch.tensor([self.script[tuple(text[-2:])] for text in self.texts]).log_softmax(
            dim=-1
        )

    def fork(self, beams: int) -> None:
        self.beams = beams
        self.texts = [list(text) for text in self.texts for _ in range(beams)]

    def step(self, tokens: Tensor, rows: Tensor | None = None) -> None:
        self.executed.append(len(tokens))
        parents = range(len(tokens)) if rows is None else rows.tolist()
        ids = tokens.tolist()
        self.texts = [[*self.texts[row], token] for row, token in zip(parents, ids, strict=True)]

    def keep(self, places: Sequence[int]) -> None:
        rows = [place * self.beams + beam for place in places for beam in range(self.beams)]
        self.texts = [self.texts[row] for row in rows]

    def generated(self, row: int) -> Tensor:
        return torch.tensor(self.texts[row])


def counting(last: int) -> Script:
    """1, 2, 3 and so on up to ``last``, then the end."""
    script: Script = {}
    for token in range(last + 1):
        for before in [(), *((other,) for other in range(last + 1))]:
            follows = END if token == last else token + 1
            script[(*before, token)] = [float(other == follows) * 5 for other in range(last + 1)]
    script[()] = [float(other == 1) * 5 for other in range(last + 1)]
    return script


def run(
    script: Script, config: SearchConfig, *, limits: list[int], **options: Any
) -> tuple[Table, list[Answer]]:
    table = Table(script, len(limits))
    contexts = [SearchContext([], []) for _ in limits]
    answers = search(table, config, contexts=contexts, limits=limits, ends=[END], **options)
    return table, answers


def test_greedy_search_ends_at_the_end_at_a_limit_or_when_it_is_enough() -> None:
    _, answers = run(
        counting(6),
        SearchConfig(),
        limits=[9, 9, 4, 9],
        stops=[None, lambda ids: len(ids) == 2, None, None],
    )
    assert [answer.tokens for answer in answers] == [
        [1, 2, 3, 4, 5, 6],
        [1, 2],
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5, 6],
    ]
    assert [answer.finished for answer in answers] == [True, False, False, True]
    assert [answer.generated.tolist() for answer in answers] == [
        [1, 2, 3, 4, 5, 6],
        [1],
        [1, 2, 3],
        [1, 2, 3, 4, 5, 6],
    ]


def test_nothing_is_computed_beyond_what_is_enough() -> None:
    table, _ = run(
        counting(6), SearchConfig(), limits=[9, 9], stops=[lambda ids: len(ids) == 2] * 2
    )
    assert len(table.executed) == 1


@pytest.mark.parametrize("beams", [1, 2])
def test_every_end_id_ends_an_answer_and_is_no_part_of_it(beams: int) -> None:
    for ends in ([END], [END, 3], [3, END], [5, END, 3]):
        table = Table(counting(6), 2)
        contexts = [SearchContext([], []), SearchContext([], [])]
        answers = search(
            table, SearchConfig(beams=beams), contexts=contexts, limits=[9, 9], ends=ends
        )
        expected = [1, 2] if 3 in ends else [1, 2, 3, 4, 5, 6]
        assert [(answer.tokens, answer.finished) for answer in answers] == [(expected, True)] * 2


def test_beams_go_on_and_keep_the_rows_of_the_winner() -> None:
    _, (answer,) = run(counting(5), SearchConfig(beams=2), limits=[9], stops=[lambda ids: True])
    assert (answer.tokens, answer.finished) == ([1, 2, 3, 4, 5], True)
    assert answer.generated.tolist() == [1, 2, 3, 4, 5]


def test_a_beam_overtakes_the_greedy_answer() -> None:
    """1 is likelier than 2, but what follows 2 is sure."""
    sure, unsure = [9.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    script = {
        (): [-9.0, 0.5, 0.0],
        (1,): unsure,
        (2,): sure,
        (1, 1): sure,
        (1, 2): sure,
        (2, 1): sure,
        (2, 2): sure,
    }
    assert run(script, SearchConfig(), limits=[3])[1][0].tokens[:1] == [1]
    answer = run(script, SearchConfig(beams=2), limits=[3])[1][0]
    assert (answer.tokens, answer.finished, answer.generated.tolist()) == ([2], True, [2])


@pytest.mark.parametrize("beams", [1, 2])
def test_suppressed_ids_are_never_generated_at_all_or_first(beams: int) -> None:
    """The end would come at once, then 1; each stream has its own rules for the first id."""
    scores = [9.0, 5.0, 4.0, 0.0]
    script: Script = {(): scores} | {(token,): scores for token in range(4)}
    script |= {(before, token): scores for before in range(4) for token in range(4)}
    config = SearchConfig(beams=beams, length_penalty=0.0)
    assert [answer.tokens for answer in run(script, config, limits=[3, 3])[1]] == [[], []]
    answers = run(script, config, limits=[3, 3, 3], never_first=[[END], [], [END, 1]])[1]
    assert [answer.tokens for answer in answers] == [[1], [], [2]]
    answers = run(script, config, limits=[3, 3], never_first=[[], [END]])[1]
    # the first stream ends at once, the second one later
    assert [answer.tokens for answer in answers] == [[], [1]]
    answers = run(script, config, limits=[3, 3, 3], never_first=[[END], [], [END, 1]], never=[1])[1]
    assert [answer.tokens for answer in answers] == [[2], [], [2]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beams": 0}, "beams of at least 1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty above 0"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram of at least 0"),
        ({"suppress": ["(", ""]}, "empty text"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(ZooError, match=message):
        SearchConfig(**settings)


@pytest.mark.parametrize("beams", [1, 2])
def test_scores_that_are_no_numbers_are_an_error(beams: int) -> None:
    """NaN would make a search choose any id, also one that is never generated."""
    script = counting(4) | {(1,): [float("nan")] * 5}
    with pytest.raises(ZooError, match="The weights give no finite numbers"):
        run(script, SearchConfig(beams=beams), limits=[4, 4], never=[3])


@pytest.mark.parametrize("beams", [1, 2])
def test_an_excluded_id_is_not_generated_even_if_no_other_is_left(beams: int) -> None:
    with pytest.raises(ZooError, match="The search excludes every token"):
        run(counting(4), SearchConfig(beams=beams), limits=[4], never=[0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    ("beams", "executed"),
    [
        # All answers have the first two ids; then one of ten streams is finished, which is the
        # largest share that stays, and after each following step one more stream leaves.
        (1, [10, 10, 8, 7, 6, 5, 4, 3, 2, 1]),
        (2, [20, 20, 16, 14, 12, 10, 8, 6, 4, 2]),
    ],
)
def test_finished_streams_leave_the_batch(beams: int, executed: list[int]) -> None:
    limits = list(range(2, 12))
    table, answers = run(counting(12), SearchConfig(beams=beams), limits=limits)
    assert [answer.tokens for answer in answers] == [list(range(1, limit + 1)) for limit in limits]
    assert [answer.generated.tolist() for answer in answers] == [
        answer.tokens[:-1] for answer in answers
    ]
    assert table.executed == executed
    useful = beams * sum(len(answer.generated) for answer in answers)
    assert useful >= 0.9 * sum(table.executed)


def test_streams_at_the_end_of_the_batch_take_the_places_of_finished_ones() -> None:
    assert staying([False] * 9 + [True]) is None
    assert staying([False] * 8 + [True]) == list(range(8))
    assert staying([True, False, True, False, False, True, False]) == [6, 1, 4, 3]
