"""Greedy search and beam search with repetition controls, for any decoder behind ``Continuation``.

An answer is the list of ids that a search generates for one stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from zoo.backbones.decoding.beam_search import BeamConfig, beam_search
from zoo.backbones.decoding.continuation import (
    Answer,
    Continuation,
    Drafts,
    Guesses,
    SearchContext,
    Stop,
    StopMarks,
)
from zoo.backbones.decoding.greedy_search import GreedyText, accept_drafts, greedy_search
from zoo.backbones.decoding.guessed_search import guessed_search
from zoo.backbones.decoding.loops import loop_stop, without_loop
from zoo.backbones.decoding.rules import RepetitionControls, SearchRules
from zoo.base.errors import ZooError, check_numbers
from zoo.streaming.stages import stage


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
        loop_copies: An answer ends as soon as its text, the kept text included, ends with this many
            equal n-grams in a row, of at least 8 tokens altogether, and all but the first of them
            are removed (ours). None disables the control.
    """

    beams: int = 1
    length_penalty: float = 1.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    repetition: Literal["text", "prompt"] = "text"
    suppress: Sequence[str] = ()
    loop_copies: int | None = None

    def __post_init__(self) -> None:
        """Raises ZooError for a value out of range and for options that prevent an end."""
        check_numbers("The search", least=1, beams=self.beams)
        check_numbers("The search", least=-50, most=50, length_penalty=self.length_penalty)
        check_numbers("The search", above=0, repetition_penalty=self.repetition_penalty)
        check_numbers("The search", least=0, no_repeat_ngram=self.no_repeat_ngram)
        check_numbers("The search", least=2, loop_copies=self.loop_copies)
        if self.repetition == "prompt" and self.no_repeat_ngram == 1:
            raise ZooError(
                "A search with repetition=prompt needs a no_repeat_ngram other than 1: the end "
                "could not be generated."
            )
        if "" in self.suppress:
            raise ZooError("The search cannot suppress an empty text: every token contains it.")

    @property
    def controls(self) -> RepetitionControls:
        """The controls of repeated ids."""
        return RepetitionControls(self.no_repeat_ngram, self.repetition_penalty, self.repetition)


@stage("decode")
def search(
    continuation: Continuation,
    config: SearchConfig,
    *,
    contexts: Sequence[SearchContext],
    limits: Sequence[int],
    ends: Sequence[int],
    never: Sequence[int] = (),
    never_first: Sequence[Sequence[int]] | None = None,
    stops: Sequence[Stop | None] | None = None,
    stop_marks: StopMarks | None = None,
    drafts: Drafts | None = None,
    guesses: Guesses | None = None,
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
            stop conditions; beam search ignores them, and removes a loop from its answer.
        stop_marks: Marks tokens at which an answer may end. Greedy search ends it at the first
            marked token, beam search as soon as all beams have that token in common.
        drafts: Greedy search begins after the longest prefix of each draft that it would have
            generated itself. Within a draft, no stop condition applies and no token is marked.
        guesses: Greedy search verifies guessed ids instead of generating one id per pass, unless
            repetition controls are enabled. There must be no ``never_first`` and ``stop_marks``.

    Returns:
        One answer per stream.

    Raises:
        ZooError: The scores of a stream are not numbers, or the constraints exclude every id.
    """
    controls = config.controls
    first = never_first or [()] * len(contexts)
    begun: list[list[int]] = [[] for _ in contexts]
    if config.beams == 1 and drafts is not None and any(drafts.drafts):
        begun = _accept(drafts, controls, contexts, limits, never=never, never_first=first)

    rules = SearchRules(
        controls,
        contexts,
        log_probs=continuation.log_probs,
        answers=begun,
        never=never,
        never_first=first,
    )
    copies = config.loop_copies
    if config.beams > 1:
        beam_config = BeamConfig(config.beams, config.length_penalty, ends)
        answers = beam_search(continuation, rules, beam_config, limits, stop_marks)
    else:
        conditions = _with_loops(stops or [None] * len(contexts), contexts, copies)
        streams = zip(begun, limits, conditions, strict=True)
        texts = [GreedyText(tokens, limit, stop) for tokens, limit, stop in streams]
        if guesses is None or controls.enabled:
            answers = greedy_search(continuation, rules, texts, ends, stop_marks)
        else:
            answers = guessed_search(guesses, rules, texts, ends)
    if copies is None:
        return answers
    pairs = zip(answers, contexts, strict=True)
    return [without_loop(answer, context.earlier, copies) for answer, context in pairs]


def _accept(
    drafts: Drafts,
    controls: RepetitionControls,
    contexts: Sequence[SearchContext],
    limits: Sequence[int],
    *,
    never: Sequence[int],
    never_first: Sequence[Sequence[int]],
) -> list[list[int]]:
    """Accept and return the first ids of each draft; ``search`` has the arguments."""

    def rules_of(stream: int, prefixes: list[list[int]], log_probs: Tensor) -> SearchRules:
        rows = len(prefixes)
        return SearchRules(
            controls,
            [contexts[stream]] * rows,
            log_probs=log_probs,
            answers=prefixes,
            never=never,
            never_first=[never_first[stream]] * rows,
        )

    return accept_drafts(drafts, limits, rules_of)


def cut_before_stop(draft: list[int], stop: Stop | None) -> list[int]:
    """Return the first ids of a draft, at none of which a stop condition ends an answer."""
    if stop is None:
        return draft
    lengths = (length for length in range(len(draft)) if stop(draft[: length + 1]))
    return draft[: next(lengths, len(draft))]


def _with_loops(
    stops: Sequence[Stop | None], contexts: Sequence[SearchContext], copies: int | None
) -> Sequence[Stop | None]:
    """Return the stop conditions of answers that also end when they loop, unless copies is None."""
    if copies is None:
        return stops
    pairs = zip(contexts, stops, strict=True)
    return [loop_stop(context.earlier, copies, stop) for context, stop in pairs]
