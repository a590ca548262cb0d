"""Greedy search and beam search with repetition controls, for any decoder behind ``Continuation``.

An answer is the list of ids that a search generates for one stream.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, Protocol

import torch
from torch import Tensor

from zoo.errors import ZooError, check_numbers

Stop = Callable[[list[int]], bool]  # receives the generated ids; returns whether to stop


class Continuation(Protocol):
    """Decoder state of a search over a batch of streams.

    Each stream has one row per beam; row = stream index x beams + beam index.
    """

    @property
    def log_probs(self) -> Tensor:
        """(rows, vocabulary) log-probabilities of the next token of each row."""

    def fork(self, beams: int) -> None:
        """Replace the row of each stream by ``beams`` identical rows."""

    def step(self, tokens: list[int], rows: list[int] | None = None) -> None:
        """Append one token to each row.

        Args:
            tokens: Next id of each row.
            rows: For each new row, the index of the old row that the new row continues. Both rows
                belong to the same stream. None continues each row with its own token.
        """

    def generated(self, row: int) -> Tensor:
        """Return decoder data of the tokens fed to ``row``, such as keys and values.

        The rows of the fed tokens come last, in order.
        """


class LateRows(Protocol):
    """Marks the rows of a search at whose newest token decoding may stop.

    Attributes:
        own: Whether a mark belongs to the token that was fed last. Otherwise, it belongs to the
            token that is generated next.
    """

    own: bool

    def __call__(self) -> list[bool]:
        """Return one mark per row. Called once for each position: the prompt, then each step."""


class Drafts(Protocol):
    """Drafts of answers, which the decoder has processed together with the prompts.

    Attributes:
        drafts: Ids that may be the beginning of each stream's answer.
    """

    drafts: Sequence[list[int]]

    def draft_log_probs(self, stream: int) -> Tensor:
        """Return the log-probabilities (n, vocabulary) of the n ids of a draft."""

    def accept(self, lengths: Sequence[int]) -> None:
        """Continue after the first ids of each draft; the other ids are rejected.

        Args:
            lengths: Number of accepted ids of each stream.
        """


@dataclass(frozen=True, slots=True)
class Context:
    """Ids before an answer, which the repetition controls compare with generated ids.

    Attributes:
        earlier: Kept target ids, which the answer continues.
        prompt: Decoder input ids of the current request before the answer.
    """

    earlier: list[int]
    prompt: list[int]


@dataclass(frozen=True, slots=True)
class Answer:
    """Search result of one stream.

    Attributes:
        tokens: Generated ids without an end id.
        finished: Whether the model generated an end id.
        generated: ``Continuation.generated`` of the answer. It covers either all tokens or all
            tokens but the last.

    An answer that stopped early is not finished; see ``LateRows``.
    """

    tokens: list[int]
    finished: bool
    generated: Tensor


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """Configuration of greedy search or beam search.

    Attributes:
        beams: Beam size; 1 is greedy search.
        length_penalty: Finished beams are ranked by log-probability / length ** length_penalty. The
            length includes the end id.
        no_repeat_ngram: Size of the n-grams that may occur only once; 0 disables the control.
        repetition_penalty: Factor on the log-probabilities of ids that occurred before; 1 disables
            the control.
        repetition: Ids that ``no_repeat_ngram`` and ``repetition_penalty`` compare with.
            text: the kept target text and the answer.
            prompt: the prompt and the answer, as in the released code of InfiniSST. The prompt
            includes the instruction and end-of-turn ids. In addition, an n-gram of the kept target
            text must not be repeated.
        suppress: Texts that must not be generated. Tokens that contain one of the texts are
            excluded.
    """

    beams: int = 1
    length_penalty: float = 1.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    repetition: Literal["text", "prompt"] = "text"
    suppress: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raises ZooError for a value out of range and for options that prevent an end."""
        check_numbers("The search", least=1, beams=self.beams)
        check_numbers("The search", above=0, repetition_penalty=self.repetition_penalty)
        check_numbers("The search", least=0, no_repeat_ngram=self.no_repeat_ngram)
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
            log_probs: (rows, vocabulary) log-probabilities of the next token.
            contexts: Context of each row.
            answers: Generated ids of each row.

        Returns:
            (rows, vocabulary) scores. If both controls are disabled, the ``log_probs`` tensor
            itself is returned.
        """
        if self.no_repeat_ngram == 0 and self.repetition_penalty == 1.0:
            return log_probs
        scores = log_probs.clone()
        for row, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
            previous_ids = context.earlier if self.repetition == "text" else context.prompt
            ids = previous_ids + answer
            forbidden = following(ids, ids, self.no_repeat_ngram)
            if self.repetition == "prompt":
                forbidden += following(ids, context.earlier, self.no_repeat_ngram)

            seen = torch.tensor(sorted(set(ids)), dtype=torch.long, device=scores.device)
            scores[row, seen] *= self.repetition_penalty
            scores[row, forbidden] = -torch.inf
        return scores


def following(ids: list[int], text: list[int], size: int) -> list[int]:
    """Return the ids that would complete an n-gram of ``text``.

    Args:
        ids: Ids so far. The last ``size - 1`` ids are the first part of the n-gram.
        text: Ids whose n-grams are searched.
        size: Size n of the n-grams; 0 returns no id.
    """
    if size == 0 or len(ids) < size - 1:
        return []
    tail = ids[len(ids) - size + 1 :]
    ngram_starts = range(len(text) - size + 1)
    return [
        text[start + size - 1] for start in ngram_starts if text[start : start + size - 1] == tail
    ]


def search(
    continuation: Continuation,
    config: SearchConfig,
    *,
    contexts: Sequence[Context],
    limits: Sequence[int],
    ends: Sequence[int],
    never: Sequence[int] = (),
    never_first: Sequence[Sequence[int]] | None = None,
    stops: Sequence[Stop | None] | None = None,
    late: LateRows | None = None,
    drafts: Drafts | None = None,
) -> list[Answer]:
    """Generate one answer per stream.

    Args:
        continuation: Decoder state after the prompts, one row per stream.
        config: Beam size and repetition controls.
        contexts: Ids before the answer of each stream.
        limits: Maximum number of generated ids of each stream, the end id included.
        ends: Ids that end an answer, at least one.
        never: Ids that are never generated.
        never_first: For each stream, ids that are never generated first. If all end ids are
            among these ids, no answer is empty.
        stops: For each stream, an additional stop condition or None. Only greedy search applies
            stop conditions; beam search ignores them.
        late: Marks tokens at which an answer may end. Greedy search ends it at the first one, beam
            search as soon as all beams have that token in common.
        drafts: Greedy search begins after the longest prefix of each draft that it would have
            generated itself. The streams of drafts have no stop condition and no late token.

    Returns:
        One answer per stream.

    Raises:
        ZooError: The scores of a stream are not numbers, or the constraints exclude every id.
    """
    rules = Rules(config, list(never), never_first or [()] * len(contexts))
    if config.beams > 1:
        return _beam_search(continuation, rules, contexts, limits, ends, late)
    stops = stops or [None] * len(contexts)
    begun: list[list[int]] = [[] for _ in contexts]
    if drafts is not None and any(drafts.drafts):
        begun = rules.accepted(drafts, contexts, limits)
    return _greedy(continuation, rules, contexts, limits, ends, stops, late, begun)


@dataclass(frozen=True, slots=True)
class Rules:
    """Constraints on generated ids.

    Attributes:
        config: Repetition controls.
        never: Ids that are never generated.
        never_first: For each stream, ids that are never generated first.
    """

    config: SearchConfig
    never: list[int]
    never_first: Sequence[Sequence[int]]

    def scores(
        self, log_probs: Tensor, contexts: Sequence[Context], answers: Sequence[list[int]]
    ) -> Tensor:
        """Apply all constraints to (rows, vocabulary) log-probabilities.

        Args:
            log_probs: (rows, vocabulary) log-probabilities of the next token.
            contexts: Context of each row.
            answers: Generated ids of each row.

        Returns:
            (rows, vocabulary) scores; an excluded id has the score -inf.
        """
        scores = self.config.scores(log_probs, contexts, answers)
        if self.never:
            never = torch.tensor(self.never, device=scores.device)
            scores = scores.index_fill(1, never, -torch.inf)
        if not any(self.never_first):
            return scores

        # The answer of a stream that ended immediately stays empty while other streams continue.
        empty_rows = [row for row, answer in enumerate(answers) if not answer]
        if empty_rows:
            scores = scores.clone()
        for row in empty_rows:
            stream = row * len(self.never_first) // len(scores)
            scores[row, list(self.never_first[stream])] = -torch.inf
        return scores

    def accepted(
        self, drafts: Drafts, contexts: Sequence[Context], limits: Sequence[int]
    ) -> list[list[int]]:
        """Accept the prefix of each draft that greedy search generates, and return these ids.

        Args:
            drafts: Drafts of all streams.
            contexts: Context of each stream.
            limits: Maximum number of generated ids of each stream.
        """
        begun: list[list[int]] = []
        for stream, draft in enumerate(drafts.drafts):
            ids = draft[: limits[stream] - 1]  # the search generates at least one id
            if not ids:
                begun.append([])
                continue
            rules = replace(self, never_first=[self.never_first[stream]])
            scores = rules.scores(
                drafts.draft_log_probs(stream)[: len(ids)],
                [contexts[stream]] * len(ids),
                [ids[:length] for length in range(len(ids))],
            )
            pairs = zip(ids, scores.argmax(dim=-1).tolist(), strict=True)
            begun.append([token for token, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)])
        drafts.accept([len(ids) for ids in begun])
        return begun


def _greedy(
    continuation: Continuation,
    rules: Rules,
    contexts: Sequence[Context],
    limits: Sequence[int],
    ends: Sequence[int],
    stops: Sequence[Stop | None],
    late: LateRows | None,
    tokens: list[list[int]],
) -> list[Answer]:
    """Greedy search with the arguments of ``search``. Finished streams are fed until all finish.

    ``tokens`` are the first ids of each answer, which the decoder has processed.
    """
    answers: dict[int, Answer] = {}
    own = late is not None and late.own
    while True:
        marks = late() if late else [False] * len(tokens)
        scores = rules.scores(continuation.log_probs, contexts, tokens)
        best = scores.argmax(dim=-1)
        best_scores = scores.gather(1, best[:, None]).flatten().tolist()
        best_ids = best.tolist()
        for stream, (token, score) in enumerate(zip(best_ids, best_scores, strict=True)):
            if stream in answers:
                continue
            check_score(score)
            ids = tokens[stream]
            if own and ids and marks[stream]:
                answers[stream] = Answer(ids, False, continuation.generated(stream))
                continue
            ended = token in ends
            if not ended:
                ids.append(token)
            stop = stops[stream]
            stopped = (marks[stream] and not own) or (stop is not None and stop(ids))
            if ended or len(ids) == limits[stream] or stopped:
                answers[stream] = Answer(ids, ended, continuation.generated(stream))
        if len(answers) == len(tokens):
            return [answers[stream] for stream in range(len(tokens))]
        continuation.step(best_ids)


def _beam_search(
    continuation: Continuation,
    rules: Rules,
    contexts: Sequence[Context],
    limits: Sequence[int],
    ends: Sequence[int],
    late: LateRows | None,
) -> list[Answer]:
    """Beam search; for the arguments see ``search``.

    Each stream is searched as in Hugging Face Transformers with ``early_stopping=False``.
    """
    config = rules.config
    continuation.fork(config.beams)
    contexts = [context for context in contexts for _ in range(config.beams)]
    streams = [
        StreamSearch(continuation, config, limit, ends, index) for index, limit in enumerate(limits)
    ]
    while True:
        if late:
            marks = late()
            for stream in streams:
                stream.mark(marks, own=late.own)
        beams = [beam for stream in streams for beam in stream.beams]
        scores = rules.scores(continuation.log_probs, contexts, [beam.tokens for beam in beams])
        sums = [[beam.score] for beam in beams]
        scores = scores + torch.tensor(sums, dtype=scores.dtype, device=scores.device)
        vocabulary = scores.shape[1]
        # (streams, candidates): enough of them even if every beam ends with every end id
        candidates = (1 + len(ends)) * config.beams
        values, places = scores.view(len(streams), -1).topk(candidates)
        for stream, value, place in zip(streams, values.tolist(), places.tolist(), strict=True):
            stream.advance(value, place, vocabulary)
            if late and not stream.done:
                stream.stop_early()
        if all(stream.done for stream in streams):
            return [max(stream.finished, key=lambda scored: scored[0])[1] for stream in streams]
        beams = [beam for stream in streams for beam in stream.beams]
        continuation.step([beam.tokens[-1] for beam in beams], [beam.row for beam in beams])


@dataclass(frozen=True, slots=True)
class Beam:
    """An unfinished beam.

    Attributes:
        tokens: Generated ids.
        score: Sum of the scores of the generated ids.
        row: Index of the decoder row that the beam continues.
        first_late: Number of generated ids up to the first late one, which is included; None if no
            late id is known. The last id may not be generated yet.
    """

    tokens: list[int]
    score: float
    row: int
    first_late: int | None = None


class StreamSearch:
    """Beam search of one stream.

    Attributes:
        beams: Unfinished beams, best first.
        finished: Pairs of a length-normalised score and an answer, best first, at most
            ``config.beams`` pairs.
        done: Whether the search is over: no unfinished beam can outscore the finished answers.
    """

    def __init__(
        self,
        continuation: Continuation,
        config: SearchConfig,
        limit: int,
        ends: Sequence[int],
        index: int,
    ) -> None:
        self.continuation = continuation
        self.config = config
        self.limit = limit
        self.ends = ends
        self.first_row = index * config.beams
        self.beams = [
            Beam([], 0.0 if beam == 0 else -torch.inf, self.first_row)
            for beam in range(config.beams)
        ]
        self.finished: list[tuple[float, Answer]] = []
        self.done = False

    def advance(self, values: list[float], places: list[int], vocabulary: int) -> None:
        """Extend the beams by one token.

        Args:
            values: Scores of the candidates, summed over tokens, best first.
            places: Index of each candidate, parent beam x vocabulary + token.
            vocabulary: Size of the vocabulary.
        """
        if self.done:  # the batch needs rows for this stream until all streams are done
            self.beams = [Beam([self.ends[0]], beam.score, self.first_row) for beam in self.beams]
            return
        check_score(values[0])
        running: list[Beam] = []
        length = len(self.beams[0].tokens) + 1
        for rank, (score, place) in enumerate(zip(values, places, strict=True)):
            beam, token = divmod(place, vocabulary)
            parent = self.beams[beam]
            row = self.first_row + beam
            if token in self.ends or length == self.limit:
                if rank < self.config.beams and score > -torch.inf:
                    self._finish([*parent.tokens, token], score, row)
            elif len(running) < self.config.beams:
                running.append(Beam([*parent.tokens, token], score, row, parent.first_late))

        at_limit = length == self.limit  # then no beam is unfinished
        self.done = at_limit or self._settled(running[0].score / length**self.config.length_penalty)
        padding = [Beam([self.ends[0]], 0.0, self.first_row)] * self.config.beams
        self.beams = running or padding

    def _finish(self, tokens: list[int], score: float, row: int) -> None:
        """Add an answer to ``finished`` and keep the best ``config.beams`` answers."""
        ended = tokens[-1] in self.ends
        answer = Answer(tokens[:-1] if ended else tokens, ended, self.continuation.generated(row))
        self.finished.append((score / len(tokens) ** self.config.length_penalty, answer))
        self.finished = sorted(self.finished, key=lambda scored: -scored[0])[: self.config.beams]

    def mark(self, marks: Sequence[bool], *, own: bool) -> None:
        """Note the first late id of each beam.

        Args:
            marks: Mark of each row; see ``LateRows``.
            own: Whether marks belong to the ids fed last instead of to the next ids.
        """
        for place, beam in enumerate(self.beams):
            newest = len(beam.tokens) if own else len(beam.tokens) + 1
            if beam.first_late is None and newest and marks[self.first_row + place]:
                self.beams[place] = replace(beam, first_late=newest)

    def stop_early(self) -> None:
        """End the answer at its first late id if all beams and finished answers share it.

        Whichever of them would win, the answer would begin with the same ids, and nothing is read
        of the later ones.
        """
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


def check_score(best: float) -> None:
    """Check the best score of the next id.

    Args:
        best: Score of the id that a search would choose: NaN if any score is NaN, -inf if all ids
            are excluded.

    Raises:
        ZooError: The score is NaN or -inf.
    """
    if math.isnan(best):
        raise ZooError(
            "The weights give no finite numbers: the scores of the next token are NaN; check the "
            "checkpoint and the level of the audio, or choose another backbone.dtype."
        )
    if best == -math.inf:
        raise ZooError(
            "The search excludes every token; relax search.suppress and search.no_repeat_ngram."
        )
