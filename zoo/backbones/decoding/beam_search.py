"""Beam search over a batch of streams, each as in Transformers with ``early_stopping=False``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.decoding.batches import pick
from zoo.backbones.decoding.continuation import Answer, Continuation, StopMarks, staying
from zoo.backbones.decoding.rules import SearchRules, check_score


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


class Candidates(NamedTuple):
    """Candidates of each stream, best first.

    Attributes:
        scores: (streams, candidates) sums of the scores of all ids.
        tokens: (streams, candidates) next ids.
        parents: (streams, candidates) indices of the extended beams in their streams.
    """

    scores: Tensor
    tokens: Tensor
    parents: Tensor


@dataclass(frozen=True, slots=True)
class Beam:
    """An unfinished beam.

    Attributes:
        tokens: Generated ids.
        score: Sum of the scores of the generated ids.
        rank: Index of the candidate that became the beam.
        row: Decoder row that the beam continues.
        first_marked: Number of generated ids up to the first marked one, which is included; None if
            no id is marked so far. The marked id may be the next one, which is not in ``tokens``
            yet. See ``StopMarks``.
    """

    tokens: list[int]
    score: float
    rank: int
    row: int
    first_marked: int | None = None


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
    rules: SearchRules,
    config: BeamConfig,
    limits: Sequence[int],
    stop_marks: StopMarks | None,
) -> list[Answer]:
    """Search for the best answer of each stream.

    Example:
        One stream, two beams, ids ``a``, ``b`` and one end id, length penalty 1, so each step looks
        at four candidates. After the prompt, the scores are a -0.5, b -1.0, end -3.0. The beams are
        a (-0.5) and b (-1.0); the end is only third and gives no answer.

        Scores of the next ids: after a, a -2.0, b -1.5, end -0.5; after b, a -0.2, b -2.0,
        end -4.0. The four candidates are "a end" -1.0, "b a" -1.2, "a b" -2.0 and "a a" -2.5.
        "a end" is among the best two, so the answer "a" is finished, with score -1.0 / 2 = -0.5.
        The beams are "b a" (-1.2) and "a b" (-2.0). The search goes on, because only one of two
        answers is finished.

    Args:
        continuation: Decoder state after the prompts, one row per stream.
        rules: Constraints on the ids.
        config: Options of the search.
        limits: Maximum number of generated ids of each stream, the end id included.
        stop_marks: Marks tokens at which an answer may end: it ends as soon as all beams have the
            first marked token in common. None: no token is marked.

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
        candidates = best_candidates(scores, sums, config.candidates)
        _advance(batch, candidates, stop_marks, config.beams)
        if all(stream.done for stream in batch):
            return [max(stream.finished, key=lambda scored: scored[0])[1] for stream in streams]

        remaining = staying([stream.done for stream in batch])
        indices = torch.tensor(remaining or range(len(batch)), device=sums.device)
        sums, tokens, parents = _selected(candidates, batch, indices)
        rules.select((indices[:, None] * config.beams + parents).flatten())
        rules.append(tokens.flatten())
        if remaining is not None:
            batch = pick(batch, remaining)
            continuation.keep(remaining)
            if stop_marks is not None:
                stop_marks.keep(remaining)
        first_rows = torch.arange(0, sums.numel(), config.beams, device=tokens.device)[:, None]
        continuation.step(tokens.flatten(), (first_rows + parents).flatten())


def best_candidates(scores: Tensor, sums: Tensor, count: int) -> Candidates:
    """Return the best ``count`` candidates of each stream.

    Args:
        scores: (rows, vocabulary) scores of the next ids.
        sums: (streams, beams) scores of the beams.
        count: Number of candidates of each stream.
    """
    totals = scores.unflatten(0, (len(sums), -1)) + sums[..., None]  # (streams, beams, vocabulary)
    values, flat = totals.flatten(1).topk(count)
    return Candidates(values, flat % scores.shape[1], flat // scores.shape[1])


def _advance(
    batch: "Sequence[StreamSearch]",
    candidates: Candidates,
    stop_marks: StopMarks | None,
    beams: int,
) -> None:
    """Extend the beams of each unfinished stream of the batch by one id."""
    streams, device = len(batch), candidates.scores.device
    marks = torch.zeros(streams, beams, device=device) if stop_marks is None else stop_marks()
    host_rows = _on_host(candidates, marks.view(streams, beams))
    for index, (stream, rows) in enumerate(zip(batch, host_rows, strict=True)):
        if stream.done:
            continue
        if stop_marks is not None:
            stream.note_marks([bool(row[3]) for row in rows], fed=stop_marks.of_fed_token)
        stream.advance([Candidate(row[0], int(row[1]), int(row[2])) for row in rows], index * beams)
        if stop_marks is not None:
            stream.stop_early()


def _on_host(candidates: Candidates, marks: Tensor) -> list[list[Any]]:
    """Copy candidates and marks (streams, beams) to the host: score, id, parent and mark.

    One copy serves all of them: ids and parents are exact in float32. The marks have one column
    per beam, so they are padded to one per candidate.
    """
    scores = candidates.scores
    marks = F.pad(marks.to(scores), (0, scores.shape[1] - marks.shape[1]))
    columns = [scores, candidates.tokens.to(scores), candidates.parents.to(scores), marks]
    streams: list[list[Any]] = torch.stack(columns, dim=2).tolist()
    return streams


def _selected(
    candidates: Candidates, batch: "Sequence[StreamSearch]", indices: Tensor
) -> Candidates:
    """Return the candidates that became beams, of the streams at these indices of the batch."""
    ranks = torch.tensor([stream.ranks for stream in batch], device=indices.device)
    return Candidates(*(values.gather(1, ranks)[indices] for values in candidates))


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
                running.append(Beam([*beam.tokens, token], score, rank, row, beam.first_marked))

        at_limit = length == self.limit  # then no beam is unfinished
        self.done = at_limit or self._settled(running[0].score / length**self.config.length_penalty)
        self.beams = running

    def _finish(self, tokens: list[int], score: float, row: int) -> None:
        """Add an answer to ``finished`` and keep the best ``config.beams`` answers."""
        ended = tokens[-1] in self.config.ends
        answer = Answer(tokens[:-1] if ended else tokens, ended, self.continuation.generated(row))
        self.finished.append((score / len(tokens) ** self.config.length_penalty, answer))
        self.finished = sorted(self.finished, key=lambda scored: -scored[0])[: self.config.beams]

    def note_marks(self, marks: Sequence[bool], *, fed: bool) -> None:
        """Note the first marked id of each beam.

        Args:
            marks: Mark of each beam, and padding; see ``StopMarks``.
            fed: Whether the marks belong to the ids fed last. Otherwise, they belong to the ids
                generated next.
        """
        for index, beam in enumerate(self.beams):
            length = len(beam.tokens) if fed else len(beam.tokens) + 1
            # with fed, the first mark belongs to the prompt, and length is 0
            if beam.first_marked is None and length and marks[index]:
                self.beams[index] = replace(beam, first_marked=length)

    def stop_early(self) -> None:
        """End the answer at its first marked id if all beams and finished answers share it.

        Whichever of them would win, the answer would begin with the same ids, and the policy reads
        nothing after the marked id.
        """
        if self.done:
            return
        best = self.beams[0]
        length = best.first_marked
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
