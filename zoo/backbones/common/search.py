"""Greedy and beam search with repetition controls over any ``Continuation``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from zoo.errors import ZooError

Stop = Callable[[list[int]], bool]  # whether an answer with these ids so far is long enough


class Continuation(Protocol):
    """Texts in progress for a batch of streams; rows are streams x beams."""

    @property
    def log_probs(self) -> Tensor:
        """(rows, vocabulary), of each row's next token."""

    def fork(self, beams: int) -> None:
        """Give each stream ``beams`` rows that continue the same text."""

    def step(self, tokens: list[int], rows: list[int] | None = None) -> None:
        """Row i continues row ``rows[i]`` of its stream (None: itself) with ``tokens[i]``."""

    def generated(self, row: int) -> Tensor:
        """What is kept of the tokens fed to ``row``."""


@dataclass(frozen=True, slots=True)
class Context:
    """The ids before an answer, for repetition controls.

    Attributes:
        earlier: Kept target ids that the answer continues.
        prompt: Ids that were fed in this step, up to the answer.
    """

    earlier: list[int]
    prompt: list[int]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a search.

    Attributes:
        tokens: Ids without the end.
        finished: Whether the model generated the end.
        generated: What the continuation keeps of the tokens that were fed: all, or all but the
            last.
    """

    tokens: list[int]
    finished: bool
    generated: Tensor


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How an answer is generated.

    Attributes:
        beams: Beam size; 1 is greedy search.
        length_penalty: Finished beams are ranked by log-probability / length ** length_penalty, the
            end included in the length.
        no_repeat_ngram: No n-gram of this size is generated twice (0: off).
        repetition_penalty: Factor on the log-probabilities of ids that occurred before (1: off).
        repetition: Where the two controls look for earlier ids. text: in kept target text and
            answer. prompt (released code of InfiniSST): in prompt and answer, the end of turn and
            the instruction included; an n-gram of earlier text is forbidden if it would be repeated
            whole.
        suppress: Texts; no token that contains one of them is generated.
    """

    beams: int = 1
    length_penalty: float = 1.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    repetition: Literal["text", "prompt"] = "text"
    suppress: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raises ZooError for a search that could generate nothing or would never end."""
        if self.beams < 1:
            raise ZooError(f"The search needs beams of at least 1, not {self.beams}.")
        if self.repetition_penalty <= 0 or self.no_repeat_ngram < 0:
            raise ZooError(
                "The search needs a repetition_penalty above 0 and a no_repeat_ngram of at least "
                f"0, not {self.repetition_penalty} and {self.no_repeat_ngram}."
            )
        if self.repetition == "prompt" and self.no_repeat_ngram == 1:
            raise ZooError(
                "A search with repetition=prompt needs a no_repeat_ngram other than 1: the end "
                "could not be generated."
            )
        if "" in self.suppress:
            raise ZooError("The search cannot suppress an empty text: every token contains it.")

    def scores(
        self, log_probs: Tensor, contexts: Sequence[Context], answers: Sequence[list[int]]
    ) -> Tensor:
        """Apply the repetition controls.

        Args:
            log_probs: (rows, vocabulary).
            contexts: Of each row.
            answers: Ids of each row's answer so far.

        Returns:
            (rows, vocabulary); ``log_probs`` itself where the controls are off.
        """
        if self.no_repeat_ngram == 0 and self.repetition_penalty == 1.0:
            return log_probs
        scores = log_probs.clone()
        for row, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
            before = context.earlier if self.repetition == "text" else context.prompt
            ids = before + answer
            forbidden = following(ids, ids, self.no_repeat_ngram)
            if self.repetition == "prompt":
                forbidden += following(ids, context.earlier, self.no_repeat_ngram)

            seen = torch.tensor(sorted(set(ids)), dtype=torch.long, device=scores.device)
            scores[row, seen] *= self.repetition_penalty
            scores[row, forbidden] = -torch.inf
        return scores


def following(ids: list[int], text: list[int], size: int) -> list[int]:
    """Ids that follow the last ``size - 1`` of ``ids`` wherever these occur in ``text``."""
    if size == 0 or len(ids) < size - 1:
        return []
    tail = ids[len(ids) - size + 1 :]
    places = range(len(text) - size + 1)
    return [text[i + size - 1] for i in places if text[i : i + size - 1] == tail]


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
    """Generate one answer per stream.

    Args:
        continuation: Texts in progress, one row per stream.
        config: How to search.
        contexts: Ids before each answer.
        limits: Most ids of each answer, the end included.
        end: Id that ends a text.
        never: Ids that are never generated.
        never_first: Per stream, ids that no answer begins with (the end: no empty answer).
        stops: Per stream, when an answer is long enough; greedy search only, beams ignore it.
    """
    rules = Rules(config, list(never), never_first or [()] * len(contexts))
    if config.beams > 1:
        return _beam_search(continuation, rules, contexts, limits, end)
    return _greedy(continuation, rules, contexts, limits, end, stops or [None] * len(contexts))


@dataclass(frozen=True, slots=True)
class Rules:
    """Which ids may be generated.

    Attributes:
        config: Repetition controls.
        never: Ids that are never generated.
        never_first: Per stream, ids that no answer begins with.
    """

    config: SearchConfig
    never: list[int]
    never_first: Sequence[Sequence[int]]

    def scores(
        self, log_probs: Tensor, contexts: Sequence[Context], answers: Sequence[list[int]]
    ) -> Tensor:
        """(rows, vocabulary), given each row's answer so far."""
        scores = self.config.scores(log_probs, contexts, answers)
        if self.never:
            never = torch.tensor(self.never, device=scores.device)
            scores = scores.index_fill(1, never, -torch.inf)
        if not any(self.never_first):
            return scores

        # a stream that ended at once keeps an empty answer while others go on
        first = [row for row, answer in enumerate(answers) if not answer]
        if first:
            scores = scores.clone()
        for row in first:
            stream = row * len(self.never_first) // len(scores)
            scores[row, list(self.never_first[stream])] = -torch.inf
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
            ids, stop = tokens[stream], stops[stream]
            if token != end:
                ids.append(token)
            if token == end or len(ids) == limits[stream] or (stop is not None and stop(ids)):
                answers[stream] = Answer(ids, token == end, continuation.generated(stream))
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
    """Hugging Face's beam search with ``early_stopping=False``, per stream."""
    config = rules.config
    continuation.fork(config.beams)
    contexts = [context for context in contexts for _ in range(config.beams)]
    streams = [
        StreamSearch(continuation, config, limit, end, index) for index, limit in enumerate(limits)
    ]
    while True:
        beams = [beam for stream in streams for beam in stream.beams]
        scores = rules.scores(continuation.log_probs, contexts, [beam.tokens for beam in beams])
        sums = [[beam.score] for beam in beams]
        scores = scores + torch.tensor(sums, dtype=scores.dtype, device=scores.device)
        values, places = scores.view(len(streams), -1).topk(2 * config.beams)
        for stream, value, place in zip(streams, values.tolist(), places.tolist(), strict=True):
            stream.advance(value, place, scores.shape[1])
        if all(stream.done for stream in streams):
            return [max(stream.finished, key=lambda scored: scored[0])[1] for stream in streams]
        beams = [beam for stream in streams for beam in stream.beams]
        continuation.step([beam.tokens[-1] for beam in beams], [beam.row for beam in beams])


@dataclass(frozen=True, slots=True)
class Beam:
    """A running beam: ids so far, sum of scores and the row that it continues."""

    tokens: list[int]
    score: float
    row: int


class StreamSearch:
    """The beams of one stream.

    Attributes:
        beams: Running beams, best first.
        finished: (normalised score, answer), at most as many as there are beams.
        done: Whether no running beam can beat the finished ones.
    """

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
        """Continue with the best candidates.

        Args:
            values: Sums of scores, best first.
            places: Indices of the same candidates into (beams x vocabulary).
            vocabulary: Number of ids.
        """
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
        padding = [Beam([self.end], 0.0, self.first_row)] * self.config.beams
        self.beams = running or padding

    def _finish(self, tokens: list[int], score: float, row: int) -> None:
        ended = tokens[-1] == self.end
        answer = Answer(tokens[:-1] if ended else tokens, ended, self.continuation.generated(row))
        self.finished.append((score / len(tokens) ** self.config.length_penalty, answer))
        self.finished = sorted(self.finished, key=lambda scored: -scored[0])[: self.config.beams]

    def _settled(self, best_running: float) -> bool:
        return len(self.finished) == self.config.beams and best_running <= self.finished[-1][0]
