"""Beam search over a batch of streams, each as in Transformers with ``early_stopping=False``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.continuation import Answer, Continuation, LateRows, staying
from zoo.backbones.common.rules import Rules, check_score


class Candidate(NamedTuple):
    """A beam and the next id that may extend it.

    Attributes:
        score: Sum of the scores of all ids.
        token: The next id.
        parent: Index of the beam in its stream.
    """

    score: float
    token: int
    parent: int


@dataclass(frozen=True, slots=True)
class Beam:
    """An unfinished beam.

    Attributes:
        tokens: Generated ids.
        score: Sum of the scores of the generated ids.
        rank: Index of the candidate that became the beam.
        row: Decoder row that the beam continues.
        first_late: Number of generated ids up to the first late one, which is included; None if no
            late id is known. The last id may not be generated yet.
    """

    tokens: list[int]
    score: float
    rank: int
    row: int
    first_late: int | None = None


@dataclass(frozen=True, slots=True)
class BeamConfig:
    """Options of a beam search; ``search.SearchConfig`` documents them.

    Attributes:
        beams: Number of beams.
        length_penalty: Exponent of the length in the scores of finished beams.
        ends: Ids that end an answer.
    """

    beams: int
    length_penalty: float
    ends: Sequence[int]

    @property
    def candidates(self) -> int:
        """Number of candidates: enough of them even if every beam ends with every end id."""
        return (1 + len(self.ends)) * self.beams


def beam_search(
    continuation: Continuation,
    rules: Rules,
    config: BeamConfig,
    limits: Sequence[int],
    late: LateRows | None,
) -> list[Answer]:
    """Search for the best answer of each stream.

    Args:
        continuation: Decoder state after the prompts, one row per stream.
        rules: Constraints on the ids.
        config: Options of the search.
        limits: Maximum number of generated ids of each stream, the end id included.
        late: Marks tokens at which an answer may end: as soon as all beams have the first of them
            in common. None: no such token.

    Raises:
        ZooError: The scores of a stream are not numbers, or the constraints exclude every id.
    """
    streams = [StreamSearch(continuation, config, limit) for limit in limits]
    continuation.fork(config.beams)
    rules.fork(config.beams)
    batch = list(streams)
    sums = continuation.log_probs.new_full((len(batch), config.beams), -torch.inf)
    sums[:, 0] = 0  # the beams of a stream are identical before the first id
    while True:
        scores = rules.scores(continuation.log_probs)  # (rows, vocabulary)
        totals = scores.unflatten(0, (len(batch), -1)) + sums[..., None]
        values, flat = totals.flatten(1).topk(config.candidates)  # (streams, candidates)
        tokens, parents = flat % scores.shape[1], flat // scores.shape[1]
        marks = torch.zeros_like(sums) if late is None else late().view(sums.shape)
        for place, found in enumerate(_on_host(values, tokens, parents, marks)):
            stream = batch[place]
            if stream.done:
                continue
            if late is not None:
                stream.mark([bool(row[3]) for row in found], own=late.own)
            candidates = [Candidate(row[0], int(row[1]), int(row[2])) for row in found]
            stream.advance(candidates, place * config.beams)
            if late is not None:
                stream.stop_early()
        if all(stream.done for stream in batch):
            return [max(stream.finished, key=lambda scored: scored[0])[1] for stream in streams]

        places = staying([stream.done for stream in batch])
        kept = torch.tensor(places or range(len(batch)), device=flat.device)
        ranks = torch.tensor([stream.ranks for stream in batch], device=flat.device)
        sums, tokens, parents = (
            part.gather(1, ranks)[kept] for part in (values, tokens, parents)
        )  # (streams that stay, beams)
        rules.select((kept[:, None] * config.beams + parents).flatten())
        rules.append(tokens.flatten())
        if places is not None:
            batch = [batch[place] for place in places]
            continuation.keep(places)
            if late is not None:
                late.keep(places)
        first_rows = torch.arange(0, sums.numel(), config.beams, device=flat.device)
        continuation.step(tokens.flatten(), (first_rows[:, None] + parents).flatten())


def _on_host(values: Tensor, tokens: Tensor, parents: Tensor, marks: Tensor) -> list[list[Any]]:
    """Copy values, ids, parents (streams, candidates) and marks (streams, beams) to the host.

    One copy for all of them: ids and parents are exact in float32.
    """
    marks = F.pad(marks.to(values), (0, values.shape[1] - marks.shape[1]))
    columns = [values, tokens.to(values), parents.to(values), marks]
    streams: list[list[Any]] = torch.stack(columns, dim=2).tolist()
    return streams


class StreamSearch:
    """Beam search of one stream.

    Attributes:
        beams: Unfinished beams, best first.
        finished: Pairs of a length-normalised score and an answer, best first, at most
            ``config.beams`` pairs.
        done: Whether the search is over: no unfinished beam can outscore the finished answers.
    """

    def __init__(self, continuation: Continuation, config: BeamConfig, limit: int) -> None:
        self.continuation = continuation
        self.config = config
        self.limit = limit
        self.beams = [
            Beam([], 0.0 if beam == 0 else -torch.inf, beam, row=beam)
            for beam in range(config.beams)
        ]
        self.finished: list[tuple[float, Answer]] = []
        self.done = False

    @property
    def ranks(self) -> list[int]:
        """Index of the candidate of each beam; a finished stream has no beams, but rows."""
        return list(range(self.config.beams)) if self.done else [beam.rank for beam in self.beams]

    def advance(self, candidates: Sequence[Candidate], first_row: int) -> None:
        """Extend the beams by one token.

        Args:
            candidates: Best first.
            first_row: Decoder row of the first beam.
        """
        check_score(candidates[0].score)
        running: list[Beam] = []
        length = len(self.beams[0].tokens) + 1
        for rank, (score, token, parent) in enumerate(candidates):
            beam, row = self.beams[parent], first_row + parent
            if token in self.config.ends or length == self.limit:
                if rank < self.config.beams and score > -torch.inf:
                    self._finish([*beam.tokens, token], score, row)
            elif len(running) < self.config.beams:
                running.append(Beam([*beam.tokens, token], score, rank, row, beam.first_late))

        at_limit = length == self.limit  # then no beam is unfinished
        self.done = at_limit or self._settled(running[0].score / length**self.config.length_penalty)
        self.beams = running

    def _finish(self, tokens: list[int], score: float, row: int) -> None:
        """Add an answer to ``finished`` and keep the best ``config.beams`` answers."""
        ended = tokens[-1] in self.config.ends
        answer = Answer(tokens[:-1] if ended else tokens, ended, self.continuation.generated(row))
        self.finished.append((score / len(tokens) ** self.config.length_penalty, answer))
        self.finished = sorted(self.finished, key=lambda scored: -scored[0])[: self.config.beams]

    def mark(self, marks: Sequence[bool], *, own: bool) -> None:
        """Note the first late id of each beam.

        Args:
            marks: Mark of each beam, and padding; see ``LateRows``.
            own: Whether marks belong to the ids fed last instead of to the next ids.
        """
        for place, beam in enumerate(self.beams):
            newest = len(beam.tokens) if own else len(beam.tokens) + 1
            if beam.first_late is None and newest and marks[place]:
                self.beams[place] = replace(beam, first_late=newest)

    def stop_early(self) -> None:
        """End the answer at its first late id if all beams and finished answers share it.

        Whichever of them would win, the answer would begin with the same ids, and nothing is read
        of the later ones.
        """
        if self.done:
            return
        best = self.beams[0]
        length = best.first_late
        if length is None or length > len(best.tokens):
            return
        shared = best.tokens[:length]
        texts = [beam.tokens for beam in self.beams if beam.score > -torch.inf]
        texts += [answer.tokens for _, answer in self.finished]
        if any(tokens[:length] != shared for tokens in texts):
            return
        generated = self.continuation.generated(best.row)
        surplus = max(len(best.tokens) - 1 - length, 0)  # the newest id is not fed yet
        answer = Answer(shared, False, generated[: len(generated) - surplus])
        self.finished, self.done = [(0.0, answer)], True

    def _settled(self, best_running: float) -> bool:
        """Whether ``finished`` is full and its worst score is at least ``best_running``."""
        return len(self.finished) == self.config.beams and best_running <= self.finished[-1][0]
