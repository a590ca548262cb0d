"""What to say in a turn: greedy or beam search with repetition controls. Knows scores, but no window and no audio."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from zoo.backbones.infinisst.turn import Turn
from zoo.backbones.infinisst.window import Answer
from zoo.errors import ZooError


@dataclass(frozen=True, slots=True)
class Context:
    """What stands before an answer. earlier: target ids of earlier turns. prompt: ids of this turn up to the answer."""

    earlier: list[int]
    prompt: list[int]


@dataclass(frozen=True, slots=True)
class SearchConfig:
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
    length_penalty: float = 1.0
    no_repeat_ngram: int = 5
    repetition_penalty: float = 1.2
    repetition: Literal["stream", "turn"] = "stream"
    lookback: int | None = None
    tokens_per_chunk: int = 10
    at_limit: Literal["keep", "drop"] = "keep"
    suppress: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raises ZooError for a search that could say nothing or would never end."""
        if self.beams < 1 or self.tokens_per_chunk < 1:
            raise ZooError(
                f"The search needs beams and tokens_per_chunk of at least 1, not {self.beams}, {self.tokens_per_chunk}."
            )
        if self.repetition_penalty <= 0 or self.no_repeat_ngram < 0:
            raise ZooError(
                f"The search needs a repetition_penalty above 0 and a no_repeat_ngram of at least 0, "
                f"not {self.repetition_penalty} and {self.no_repeat_ngram}."
            )
        if self.repetition == "turn" and self.no_repeat_ngram == 1:
            raise ZooError("A search with repetition=turn needs a no_repeat_ngram other than 1: no turn could end.")
        if self.at_limit == "drop" and self.tokens_per_chunk == 1:
            raise ZooError("A search with at_limit=drop needs tokens_per_chunk of at least 2: nothing could be said.")
        if self.lookback is not None and self.lookback < 0:
            raise ZooError(f"The search needs a lookback of at least 0 target ids (or null), not {self.lookback}.")
        if "" in self.suppress:
            raise ZooError("The search cannot suppress an empty text: every token contains it.")

    def scores(self, log_probs: Tensor, contexts: Sequence[Context], answers: Sequence[list[int]]) -> Tensor:
        """Log-probabilities (rows, vocabulary) under the repetition controls, given each row's answer so far."""
        if self.no_repeat_ngram == 0 and self.repetition_penalty == 1.0:
            return log_probs
        scores = log_probs.clone()
        for row, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
            here = (context.earlier if self.repetition == "stream" else context.prompt) + answer
            seen = torch.tensor(sorted(set(here)), dtype=torch.long, device=scores.device)
            scores[row, seen] *= self.repetition_penalty
            forbidden = _following(here, here, self.no_repeat_ngram)
            if self.repetition == "turn":
                forbidden += _following(here, context.earlier, self.no_repeat_ngram)
            scores[row, forbidden] = -torch.inf
        return scores


@dataclass(frozen=True, slots=True)
class Beam:
    """A running beam: ids so far, sum of scores and the row it continues."""

    tokens: list[int]
    score: float
    row: int


def search(
    turn: Turn,
    config: SearchConfig,
    *,
    contexts: Sequence[Context],
    limits: Sequence[int],
    end: int,
    never: Sequence[int] = (),
) -> list[Answer]:
    """One answer per stream. limits: most ids per answer. end: the end-of-turn id. never: ids that are never said."""
    run = _greedy if config.beams == 1 else _beam_search
    answers = run(turn, config, contexts, limits, end, list(never))
    if config.at_limit == "drop":
        answers = [answer if answer.finished else replace(answer, tokens=answer.tokens[:-1]) for answer in answers]
    return answers


def _greedy(
    turn: Turn, config: SearchConfig, contexts: Sequence[Context], limits: Sequence[int], end: int, never: list[int]
) -> list[Answer]:
    tokens: list[list[int]] = [[] for _ in contexts]
    answers: dict[int, Answer] = {}
    while True:
        scores = _without(config.scores(turn.log_probs, contexts, tokens), never)
        best = scores.argmax(dim=-1).tolist()
        for stream, token in enumerate(best):
            if stream in answers:
                continue
            if token != end:
                tokens[stream].append(token)
            if token == end or len(tokens[stream]) == limits[stream]:
                answers[stream] = Answer(tokens[stream], token == end, turn.generated(stream))
        if len(answers) == len(tokens):
            return [answers[stream] for stream in range(len(tokens))]
        turn.step(best)


def _beam_search(
    turn: Turn, config: SearchConfig, contexts: Sequence[Context], limits: Sequence[int], end: int, never: list[int]
) -> list[Answer]:
    """As Hugging Face does it with ``early_stopping=False``, per stream; the prompt is computed once for all beams."""
    turn.fork(config.beams)
    contexts = [context for context in contexts for _ in range(config.beams)]
    streams = [StreamSearch(turn, config, limit, end, index) for index, limit in enumerate(limits)]
    while True:
        beams = [beam for stream in streams for beam in stream.beams]
        scores = _without(config.scores(turn.log_probs, contexts, [beam.tokens for beam in beams]), never)
        scores = scores + torch.tensor([[beam.score] for beam in beams], dtype=scores.dtype, device=scores.device)
        values, places = scores.view(len(streams), -1).topk(2 * config.beams)
        for stream, value, place in zip(streams, values.tolist(), places.tolist(), strict=True):
            stream.advance(value, place, scores.shape[1])
        if all(stream.done for stream in streams):
            return [max(stream.finished, key=lambda scored: scored[0])[1] for stream in streams]
        beams = [beam for stream in streams for beam in stream.beams]
        turn.step([beam.tokens[-1] for beam in beams], [beam.row for beam in beams])


class StreamSearch:
    """The beams of one stream. ``finished``: (normalised score, answer), at most as many as there are beams."""

    def __init__(self, turn: Turn, config: SearchConfig, limit: int, end: int, index: int) -> None:
        self.turn = turn
        self.config = config
        self.limit = limit
        self.end = end
        self.first_row = index * config.beams
        self.beams = [Beam([], 0.0 if beam == 0 else -torch.inf, self.first_row) for beam in range(config.beams)]
        self.finished: list[tuple[float, Answer]] = []
        self.done = False

    def advance(self, values: list[float], places: list[int], vocabulary: int) -> None:
        """Take the best continuations: ``places`` index (beams x vocabulary), best first."""
        if self.done:
            self.beams = [Beam([self.end], beam.score, self.first_row) for beam in self.beams]
            return
        running: list[Beam] = []
        length = len(self.beams[0].tokens) + 1
        for rank, (score, place) in enumerate(zip(values, places, strict=True)):
            parent, token = self.beams[place // vocabulary], place % vocabulary
            row = self.first_row + place // vocabulary
            if token == self.end or length == self.limit:
                if rank < self.config.beams:
                    self._finish([*parent.tokens, token], score, row)
            elif len(running) < self.config.beams:
                running.append(Beam([*parent.tokens, token], score, row))
        self.done = length == self.limit or self._settled(running[0].score / length**self.config.length_penalty)
        self.beams = running if running else [Beam([self.end], 0.0, self.first_row)] * self.config.beams

    def _finish(self, tokens: list[int], score: float, row: int) -> None:
        ended = tokens[-1] == self.end
        answer = Answer(tokens[:-1] if ended else tokens, ended, self.turn.generated(row))
        self.finished.append((score / len(tokens) ** self.config.length_penalty, answer))
        self.finished = sorted(self.finished, key=lambda scored: -scored[0])[: self.config.beams]

    def _settled(self, best_running: float) -> bool:
        return len(self.finished) == self.config.beams and best_running <= self.finished[-1][0]


def _without(scores: Tensor, ids: list[int]) -> Tensor:
    """Scores (rows, vocabulary) that rule ``ids`` out."""
    if not ids:
        return scores
    return scores.index_fill(1, torch.tensor(ids, device=scores.device), -torch.inf)


def _following(ids: list[int], text: list[int], size: int) -> list[int]:
    """What follows in ``text`` wherever it has the last ``size - 1`` of ``ids``."""
    if size == 0 or len(ids) < size - 1:
        return []
    tail = ids[len(ids) - size + 1 :]
    return [text[i + size - 1] for i in range(len(text) - size + 1) if text[i : i + size - 1] == tail]
