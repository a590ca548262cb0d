"""What to say in a turn: greedy or beam search with repetition controls. Knows scores, but no window and no audio."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.backbones.infinisst.turn import Turn
from zoo.backbones.infinisst.window import Answer
from zoo.errors import ZooError


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How a turn is generated (section 4.3). beams: 1 is greedy.

    length_penalty: finished beams are ranked by log-probability / length ** length_penalty, the end of turn counted.
    no_repeat_ngram: no n-gram of this size twice (0: off). repetition_penalty: factor on the log-probability of ids
    already written (1: off). Both look back over earlier turns: the last ``lookback`` target ids (released code: 100),
    or, with None, all that are still in the window; the end of turn is never touched.
    tokens_per_chunk: a turn of m chunks has at most m times as many ids, its end included.
    """

    beams: int = 4
    length_penalty: float = 1.0
    no_repeat_ngram: int = 5
    repetition_penalty: float = 1.2
    lookback: int | None = None
    tokens_per_chunk: int = 10

    def __post_init__(self) -> None:
        """Raises ZooError for a search that could say nothing."""
        if self.beams < 1 or self.tokens_per_chunk < 1:
            raise ZooError(
                f"The search needs beams and tokens_per_chunk of at least 1, not {self.beams}, {self.tokens_per_chunk}."
            )
        if self.repetition_penalty <= 0 or self.no_repeat_ngram < 0:
            raise ZooError(
                f"The search needs a repetition_penalty above 0 and a no_repeat_ngram of at least 0, "
                f"not {self.repetition_penalty} and {self.no_repeat_ngram}."
            )

    def scores(self, log_probs: Tensor, written: Sequence[list[int]]) -> Tensor:
        """Log-probabilities (rows, vocabulary) under the repetition controls, given what each row has written."""
        if self.no_repeat_ngram == 0 and self.repetition_penalty == 1.0:
            return log_probs
        scores = log_probs.clone()
        for row, ids in enumerate(written):
            seen = torch.tensor(sorted(set(ids)), dtype=torch.long, device=scores.device)
            scores[row, seen] *= self.repetition_penalty
            scores[row, _repeating(ids, self.no_repeat_ngram)] = -torch.inf
        return scores


@dataclass(frozen=True, slots=True)
class Beam:
    """A running beam: ids so far, sum of scores and the row it continues."""

    tokens: list[int]
    score: float
    row: int


def search(
    turn: Turn, config: SearchConfig, *, written: Sequence[list[int]], limits: Sequence[int], end: int
) -> list[Answer]:
    """One answer per stream. written: ids of earlier turns. limits: most ids per answer. end: the end-of-turn id."""
    if config.beams == 1:
        return _greedy(turn, config, written, limits, end)
    return _beam_search(turn, config, written, limits, end)


def _greedy(
    turn: Turn, config: SearchConfig, written: Sequence[list[int]], limits: Sequence[int], end: int
) -> list[Answer]:
    tokens: list[list[int]] = [[] for _ in written]
    answers: dict[int, Answer] = {}
    while True:
        scores = config.scores(turn.log_probs, [old + new for old, new in zip(written, tokens, strict=True)])
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
    turn: Turn, config: SearchConfig, written: Sequence[list[int]], limits: Sequence[int], end: int
) -> list[Answer]:
    """As Hugging Face does it with ``early_stopping=False``, per stream; the prompt is computed once for all beams."""
    turn.fork(config.beams)
    streams = [StreamSearch(turn, config, limit, end, index) for index, limit in enumerate(limits)]
    while True:
        beams = [beam for stream in streams for beam in stream.beams]
        history = [written[row // config.beams] + beam.tokens for row, beam in enumerate(beams)]
        scores = config.scores(turn.log_probs, history)
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


def _repeating(ids: list[int], size: int) -> list[int]:
    """Ids that would complete an n-gram of ``size`` which ``ids`` already contain."""
    if size == 0 or len(ids) < size:
        return []
    tail = ids[len(ids) - size + 1 :]
    return [ids[i + size - 1] for i in range(len(ids) - size + 1) if ids[i : i + size - 1] == tail]
