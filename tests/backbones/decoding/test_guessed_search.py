"""Guessed ids: the same answers in fewer passes, over a table of scores."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from zoo.backbones.decoding.continuation import Answer, Guess, Guesses, SearchContext
from zoo.backbones.decoding.guessed_search import GUESSED, MEMORY, EarlierAnswers
from zoo.backbones.decoding.search import SearchConfig, search
from zoo.base.errors import ZooError

END = 0
WIDTH = 12


class Texts:
    """A continuation whose best ids are those of given texts; other texts have other best ids.

    ``passes`` has the number of fed ids of each row.
    """

    def __init__(self, texts: Sequence[list[int]]) -> None:
        self.answers = [[*text, END] for text in texts]
        self.fed: list[list[int]] = [[] for _ in texts]
        self.passes: list[list[int]] = []

    def _scores(self, row: int, ids: list[int]) -> Tensor:
        answer = self.answers[row]
        right = answer[: len(ids)] == ids and len(ids) < len(answer)
        best = answer[len(ids)] if right else 11
        return torch.nn.functional.one_hot(torch.tensor(best), WIDTH).float().log_softmax(dim=-1)

    @property
    def log_probs(self) -> Tensor:
        return torch.stack([self._scores(*pair) for pair in enumerate(self.fed)])

    def fork(self, beams: int) -> None:
        raise NotImplementedError

    def step(self, tokens: Tensor, rows: Tensor | None = None) -> None:
        self.step_guessed(tokens, [[] for _ in self.fed])

    def step_guessed(self, tokens: Tensor, guesses: Sequence[list[int]]) -> Tensor:
        self.passes.append([1 + len(guess) for guess in guesses])
        self.fed = [[*ids, token] for ids, token in zip(self.fed, tokens.tolist(), strict=True)]
        self.guesses = guesses
        new = max(map(len, guesses))
        padded = [[*guess, *[1] * (new - len(guess))] for guess in guesses]
        return torch.stack(
            [
                torch.stack([self._scores(row, ids + guess[:end]) for end in range(new + 1)])
                for row, (ids, guess) in enumerate(zip(self.fed, padded, strict=True))
            ]
        )

    def keep_guessed(self, lengths: Sequence[int]) -> None:
        if self.passes:
            rows = zip(self.fed, self.guesses, lengths, strict=True)
            self.fed = [[*ids, *guess[:length]] for ids, guess, length in rows]

    def keep(self, indices: Sequence[int]) -> None:
        self.fed = [self.fed[index] for index in indices]
        self.answers = [self.answers[index] for index in indices]

    def generated(self, row: int) -> Tensor:
        return torch.tensor(self.fed[row])


def answers(
    texts: Texts,
    guesses: Sequence[Guess] | None,
    config: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
    limit: int = 100,
) -> list[Answer]:
    count = len(texts.answers)
    return search(
        texts,
        config,
        contexts=[SearchContext([], [])] * count,
        limits=[limit] * count,
        ends=[END],
        never=[10],
        guesses=guesses and Guesses(texts, guesses),
    )


def earlier(*texts: list[int]) -> Guess:
    """What these earlier answers guess."""
    known = EarlierAnswers()
    for text in texts:
        known.append(text, END)
    return known.guess


NEW = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3, 1, 4], [2, 7, 2, 8], []]
GUESSES = {
    "right": [earlier(text) for text in NEW],
    "shifted": [earlier([5, *text[:3], 6, *text[3:]]) for text in NEW],
    "wrong": [earlier([9, 8, 7, 6, 5, 4, 3, 2, 1]) for _ in NEW],
    "none": [earlier() for _ in NEW],
    "of another stream": [earlier(NEW[0]) for _ in NEW],
}


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
@pytest.mark.parametrize("kind", GUESSES)
def test_any_guess_gives_the_same_answers(kind: str, limit: int) -> None:
    expected = answers(Texts(NEW), None, limit=limit)
    for answer, other in zip(
        answers(Texts(NEW), GUESSES[kind], limit=limit), expected, strict=True
    ):
        assert (answer.tokens, answer.finished) == (other.tokens, other.finished)
        fed = answer.generated.tolist()
        assert fed in (answer.tokens, answer.tokens[:-1])


def test_a_repeated_answer_takes_few_passes() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    alone = Texts([text])
    answers(alone, [earlier(text)])
    # The first id is not guessed, the end is. Each pass adds one id to the guessed ones.
    assert alone.passes == [[1 + GUESSED]] * 2
    plain = Texts([text])
    answers(plain, None)
    assert len(plain.passes) == len(text)


def test_streams_share_the_number_of_guessed_ids() -> None:
    texts = Texts([[1, 2, 3, 4, 5, 6, 7, 8, 9]] * GUESSED)
    answers(texts, [earlier([1, 2, 3, 4, 5, 6, 7, 8, 9])] * GUESSED)
    assert max(map(sum, texts.passes)) == 2 * GUESSED


def test_after_other_ids_the_rest_is_found_again() -> None:
    """Ids 8 9 are new; after the ids 3 4 that follow, the earlier answer goes on."""
    guess = earlier([1, 2, 3, 4, 5, 6, 7])
    texts = Texts([[1, 2, 8, 9, 3, 4, 5, 6, 7]])
    answers(texts, [guess])
    assert len(texts.passes) == 4


@pytest.mark.parametrize("config", [SearchConfig(no_repeat_ngram=2), SearchConfig(loop_copies=2)])
def test_controls_apply(config: SearchConfig) -> None:
    """Repetition controls exclude guesses; a loop ends an answer in the middle of one."""
    looping = [[1, 2] * 12]
    expected = answers(Texts(looping), None, config, limit=20)
    [found] = answers(Texts(looping), [earlier(*looping)], config, limit=20)
    assert (found.tokens, found.looped) == (expected[0].tokens, expected[0].looped)
    assert len(found.tokens) < 20 or config.loop_copies is None


def test_scores_that_are_no_numbers_are_refused() -> None:
    class Broken(Texts):
        def _scores(self, row: int, ids: list[int]) -> Tensor:
            return super()._scores(row, ids) * (torch.nan if len(ids) == 2 else 1)

    with pytest.raises(ZooError, match="NaN"):
        answers(Broken([[1, 2, 3, 4]]), [earlier([1, 2, 3, 4])])


def test_the_longest_and_latest_end_is_looked_up() -> None:
    guess = earlier([1, 2, 3, 4], [2, 3, 5], [3, 6])
    assert guess([9, 3], 3) == [6, END]
    assert guess([9, 2, 3], 1) == [5]
    assert guess([1, 2, 3], 9) == [4, END, 2, 3, 5, END, 3, 6, END]
    assert guess([7], 9) == guess([], 9) == []


def test_old_answers_are_forgotten() -> None:
    guess = earlier([1, 2, 3], [4] * MEMORY)
    assert guess([1], 2) == []
    assert guess([4], 2) == [END]
