"""What to say next: greedy or beam search with repetition controls. Knows scores, but no network and no audio."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from zoo.errors import ZooError

Stop = Callable[[list[int]], bool]  # of an answer's ids so far: these are enough


class Continuation(Protocol):
    """Texts in progress for a batch of streams; rows are streams x beams."""

    @property
    def log_probs(self) -> Tensor:
        """(rows, vocabulary), of each row's next token."""

    def fork(self, beams: int) -> None:
        """Give each stream ``beams`` rows that continue from the same text."""

    def step(self, tokens: list[int], rows: list[int] | None = None) -> None:
        """Row i continues row ``rows[i]`` of its stream (None: itself) with ``tokens[i]``."""

    def generated(self, row: int) -> Tensor:
        """What is kept of the tokens that ``row`` has been given."""


@dataclass(frozen=True, slots=True)
class Context:
    """What stands before an answer. earlier: ids that it continues. prompt: ids of this turn up to the answer."""

    earlier: list[int]
    prompt: list[int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said. tokens: ids without the end. finished: the model closed the text itself.

    generated: what the continuation keeps of the tokens it was given, all or all but the last.
    """

    tokens: list[int]
    finished: bool
    generated: Tensor


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How an answer is generated. beams: 1 is greedy.

    length_penalty: finished beams are ranked by log-probability / length ** length_penalty, the end counted.
    no_repeat_ngram: no n-gram of this size twice (0: off). repetition_penalty: factor on the log-probability of ids
    that are there already (1: off); both go by what stands before the answer, too.
    suppress: texts; no token that contains one is ever said.
    """

    beams: int = 1
    length_penalty: float = 1.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    suppress: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raises ZooError for a search that could say nothing or would never end."""
        if self.beams < 1:
            raise ZooError(f"The search needs beams of at least 1, not {self.beams}.")
        if self.repetition_penalty <= 0 or self.no_repeat_ngram < 0:
            raise ZooError(
                f"The search needs a repetition_penalty above 0 and a no_repeat_ngram of at least 0, "
                f"not {self.repetition_penalty} and {self.no_repeat_ngram}."
            )
        if "" in self.suppress:
            raise ZooError("The search cannot suppress an empty text: every token contains it.")

    def scores(
        self, log_probs: Tensor, contexts: Sequence[Context], answers: Sequence[list[int]]
    ) -> Tensor:
        """Log-probabilities (rows, vocabulary) under the repetition controls, given each row's answer so far."""
        if self.no_repeat_ngram == 0 and self.repetition_penalty == 1.0:
            return log_probs
        scores = log_probs.clone()
        for row, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
            here = self.here(context, answer)
            seen = torch.tensor(sorted(set(here)), dtype=torch.long, device=scores.device)
            scores[row, seen] *= self.repetition_penalty
            scores[row, self.forbidden(context, here)] = -torch.inf
        return scores

    def here(self, context: Context, answer: list[int]) -> list[int]:
        """Ids that the repetition penalty is on and that n-grams may begin in."""
        return context.earlier + answer

    def forbidden(self, context: Context, here: list[int]) -> list[int]:
        """Ids that would end an n-gram a second time."""
        return following(here, here, self.no_repeat_ngram)


@dataclass(frozen=True, slots=True)
class Beam:
    """A running beam: ids so far, sum of scores and the row it continues."""

    tokens: list[int]
    score: float
    row: int


def search(
    continuation: Continuation,
    config: SearchConfig,
    *,
    contexts: Sequence[Context],
    limits: Sequence[int],
    end: int,
    never: Sequence[int] = (),
    never_first: Sequence[Sequence[int]] | None = None,
    stops: Sequence[Stop | None] | None = None,
) -> list[Answer]:
    """One answer per stream.

    limits: most ids per answer, the end among them. end: the id that closes a text. never: ids that are never said.
    never_first: per stream, ids that no answer begins with (the end: no empty answer).
    stops: per stream, when an answer is enough though it is not finished; greedy search only, beams go on.
    """
    rules = Rules(config, list(never), never_first or [()] * len(contexts))
    if config.beams > 1:
        return _beam_search(continuation, rules, contexts, limits, end)
    return _greedy(continuation, rules, contexts, limits, end, stops or [None] * len(contexts))


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be said. never: ids ruled out throughout; never_first: per stream, ids that no answer begins with."""

    config: SearchConfig
    never: list[int]
    never_first: Sequence[Sequence[int]]

    def scores(
        self, log_probs: Tensor, contexts: Sequence[Context], answers: Sequence[list[int]]
    ) -> Tensor:
        """(rows, vocabulary), given each row's answer so far."""
        scores = self.config.scores(log_probs, contexts, answers)
        if self.never:
            scores = scores.index_fill(
                1, torch.tensor(self.never, device=scores.device), -torch.inf
            )
        first = (
            [row for row, answer in enumerate(answers) if not answer]
            if any(self.never_first)
            else []
        )
        if first:
            scores = scores.clone()
        for row in (
            first
        ):  # a stream that ended at once has no answer for ever, others may be well into theirs
            scores[
                row, list(self.never_first[row * len(self.never_first) // len(scores)])
            ] = -torch.inf
        return scores


def _greedy(
    continuation: Continuation,
    rules: Rules,
    contexts: Sequence[Context],
    limits: Sequence[int],
    end: int,
    stops: Sequence[Stop | None],
) -> list[Answer]:
    tokens: list[list[int]] = [[] for _ in contexts]
    answers: dict[int, Answer] = {}
    while True:
        best = rules.scores(continuation.log_probs, contexts, tokens).argmax(dim=-1).tolist()
        for stream, token in enumerate(best):
            if stream in answers:
                continue
            said, stop = tokens[stream], stops[stream]
            if token != end:
                said.append(token)
            if token == end or len(said) == limits[stream] or (stop is not None and stop(said)):
                answers[stream] = Answer(said, token == end, continuation.generated(stream))
        if len(answers) == len(tokens):
            return [answers[stream] for stream in range(len(tokens))]
        continuation.step(best)


def _beam_search(
    continuation: Continuation,
    rules: Rules,
    contexts: Sequence[Context],
    limits: Sequence[int],
    end: int,
) -> list[Answer]:
    """As Hugging Face does it with ``early_stopping=False``, per stream; the prompt is computed once for all beams."""
    config = rules.config
    continuation.fork(config.beams)
    contexts = [context for context in contexts for _ in range(config.beams)]
    streams = [
        StreamSearch(continuation, config, limit, end, index) for index, limit in enumerate(limits)
    ]
    while True:
        beams = [beam for stream in streams for beam in stream.beams]
        scores = rules.scores(continuation.log_probs, contexts, [beam.tokens for beam in beams])
        scores = scores + torch.tensor(
            [[beam.score] for beam in beams], dtype=scores.dtype, device=scores.device
        )
        values, places = scores.view(len(streams), -1).topk(2 * config.beams)
        for stream, value, place in zip(streams, values.tolist(), places.tolist(), strict=True):
            stream.advance(value, place, scores.shape[1])
        if all(stream.done for stream in streams):
            return [max(stream.finished, key=lambda scored: scored[0])[1] for stream in streams]
        beams = [beam for stream in streams for beam in stream.beams]
        continuation.step([beam.tokens[-1] for beam in beams], [beam.row for beam in beams])


class StreamSearch:
    """The beams of one stream. ``finished``: (normalised score, answer), at most as many as there are beams."""

    def __init__(
        self, continuation: Continuation, config: SearchConfig, limit: int, end: int, index: int
    ) -> None:
        self.continuation = continuation
        self.config = config
        self.limit = limit
        self.end = end
        self.first_row = index * config.beams
        self.beams = [
            Beam([], 0.0 if beam == 0 else -torch.inf, self.first_row)
            for beam in range(config.beams)
        ]
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
        self.done = length == self.limit or self._settled(
            running[0].score / length**self.config.length_penalty
        )
        self.beams = running or [Beam([self.end], 0.0, self.first_row)] * self.config.beams

    def _finish(self, tokens: list[int], score: float, row: int) -> None:
        ended = tokens[-1] == self.end
        answer = Answer(tokens[:-1] if ended else tokens, ended, self.continuation.generated(row))
        self.finished.append((score / len(tokens) ** self.config.length_penalty, answer))
        self.finished = sorted(self.finished, key=lambda scored: -scored[0])[: self.config.beams]

    def _settled(self, best_running: float) -> bool:
        return len(self.finished) == self.config.beams and best_running <= self.finished[-1][0]


def following(ids: list[int], text: list[int], size: int) -> list[int]:
    """What follows in ``text`` wherever it has the last ``size - 1`` of ``ids``."""
    if size == 0 or len(ids) < size - 1:
        return []
    tail = ids[len(ids) - size + 1 :]
    return [
        text[i + size - 1] for i in range(len(text) - size + 1) if text[i : i + size - 1] == tail
    ]
