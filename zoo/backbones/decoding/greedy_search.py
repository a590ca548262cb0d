"""Greedy search over a batch of streams, and the verification of drafts by the same rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from zoo.backbones.decoding.batches import pick
from zoo.backbones.decoding.continuation import (
    Answer,
    Continuation,
    Drafts,
    Stop,
    StopMarks,
    staying,
)
from zoo.backbones.decoding.rules import SearchRules, check_score


@dataclass(slots=True)
class GreedyText:
    """The answer of one stream so far.

    Attributes:
        tokens: Generated ids.
        limit: Maximum number of generated ids, the end id included.
        stop: Additional stop condition, or None.
        answer: The answer, as soon as it is complete.
    """

    tokens: list[int]
    limit: int
    stop: Stop | None = None
    answer: Answer | None = None

    def extend(self, token: int, ends: Sequence[int]) -> bool:
        """Append the next id unless it is an end id; return whether the answer is complete."""
        if token in ends:
            return True
        self.tokens.append(token)
        return len(self.tokens) == self.limit or (self.stop is not None and self.stop(self.tokens))


def greedy_search(
    continuation: Continuation,
    rules: SearchRules,
    texts: Sequence[GreedyText],
    ends: Sequence[int],
    stop_marks: StopMarks | None,
) -> list[Answer]:
    """Generate the most likely id of each stream until all answers are complete.

    Args:
        continuation: Decoder state after the prompts and the ids of ``texts``, one row per stream.
        rules: Constraints on the ids.
        texts: One text per stream, to which ids are appended.
        ends: Ids that end an answer.
        stop_marks: Marks tokens at which an answer ends. None: no token is marked.

    Raises:
        ZooError: The scores of a stream are not numbers, or the constraints exclude every id.
    """
    batch = list(texts)
    fed = stop_marks is not None and stop_marks.of_fed_token
    while True:
        scores = rules.scores(continuation.log_probs)
        best = scores.argmax(dim=-1)
        marks = torch.zeros_like(best) if stop_marks is None else stop_marks()
        for row, (token, score, marked) in enumerate(_on_host(best, scores, marks)):
            text = batch[row]
            if text.answer is not None:
                continue
            check_score(score)
            if fed and marked and text.tokens:  # the newest token of ``text`` was fed last
                text.answer = Answer(text.tokens, False, continuation.generated(row))
            elif text.extend(int(token), ends) or (marked and not fed):
                ended = int(token) in ends
                text.answer = Answer(text.tokens, ended, continuation.generated(row))
        finished = [text.answer is not None for text in batch]
        if all(finished):
            return [text.answer for text in texts if text.answer is not None]
        remaining = staying(finished)
        if remaining is not None:
            batch = pick(batch, remaining)
            rows = torch.tensor(remaining, device=best.device)
            best = best[rows]
            rules.select(rows)
            continuation.keep(remaining)
            if stop_marks is not None:
                stop_marks.keep(remaining)
        rules.append(best)
        continuation.step(best)


def _on_host(best: Tensor, scores: Tensor, marks: Tensor) -> list[list[float]]:
    """Copy id, score and mark of each row to the host at once; ids are exact in float32."""
    best_scores = scores.gather(1, best[:, None])[:, 0]
    columns = [best.to(scores.dtype), best_scores, marks.to(scores.dtype)]
    rows: list[list[float]] = torch.stack(columns, dim=1).tolist()
    return rows


def accept_drafts(
    drafts: Drafts,
    limits: Sequence[int],
    rules_of: Callable[[int, list[list[int]], Tensor], SearchRules],
) -> list[list[int]]:
    """Accept the first ids of each draft that greedy search would generate too; return them.

    Args:
        drafts: Drafts of all streams.
        limits: Maximum number of generated ids of each stream.
        rules_of: Returns the rules for rows of one stream: receives the stream's index, the ids
            before the next id of each row, and the log-probabilities.
    """
    begun: list[list[int]] = []
    for stream, draft in enumerate(drafts.drafts):
        ids = draft[: limits[stream] - 1]  # the search generates at least one id
        if not ids:
            begun.append([])
            continue
        log_probs = drafts.draft_log_probs(stream)[: len(ids)]
        prefixes = [ids[:length] for length in range(len(ids))]
        best = rules_of(stream, prefixes, log_probs).scores(log_probs).argmax(dim=-1)
        pairs = zip(ids, best.tolist(), strict=True)
        begun.append([token for token, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)])
    drafts.accept([len(ids) for ids in begun])
    return begun
