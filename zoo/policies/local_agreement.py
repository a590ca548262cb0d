"""Local agreement: write the prefix on which consecutive hypotheses agree.

Liu et al. (2020), "Low-Latency Sequence-to-Sequence Speech Recognition and Translation by Partial
Hypothesis Selection".
"""

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import ClassVar

from torch import Tensor

from zoo.base.errors import check_numbers
from zoo.base.types import Capability, Decision, Hypothesis, Request
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session


@dataclass(slots=True)
class UnwrittenTokens:
    """The part of an earlier hypothesis that has not been written.

    Attributes:
        token_ids: (n,) token ids.
        word_starts: (n,) bool, True where a token begins a word.
        finished: The hypothesis was finished.
        transcript: Transcript of the source from which the hypothesis was generated, or None.
    """

    token_ids: Tensor
    word_starts: Tensor
    finished: bool
    transcript: str | None = None

    def after(self, num_written: int) -> "UnwrittenTokens":
        """Return a copy without the first ``num_written`` tokens."""
        return replace(
            self,
            token_ids=self.token_ids[num_written:],
            word_starts=self.word_starts[num_written:],
        )

    def is_word_boundary(self, tokens: int) -> bool:
        """Return whether a word ends after the first ``tokens`` tokens."""
        if tokens == len(self.word_starts):
            return self.finished
        return bool(self.word_starts[tokens])


@dataclass(kw_only=True, eq=False)
class LocalAgreement(Policy):
    """Write the longest prefix of complete words that the last ``n`` hypotheses have in common.

    Each hypothesis continues the tokens written before it. Equal hypotheses are written whole (in
    the code of IWSLT 2025 but for one token). At the end the model decodes once more, and
    everything is written; FBK-fairseq writes the previous hypothesis, with its incomplete words.

    Args:
        n: Number of hypotheses that must agree.
        new_source: Compare only hypotheses of different transcripts: nothing is written while the
            transcript from which the backbone translates is the same as before (SimulStreaming's
            cascade). Without effect on backbones that translate speech directly.

    Raises:
        ZooError: ``n`` is below 2.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})

    n: int = 2
    new_source: bool = False

    def __post_init__(self) -> None:
        check_numbers("LocalAgreement", least=2, n=self.n)

    def open(self) -> list[UnwrittenTokens]:
        """Return an empty list of previous hypotheses; the newest is appended last."""
        return []

    def decide(self, session: Session, state: list[UnwrittenTokens]) -> DecisionGenerator:
        """Request one translation and compare it with the previous ones."""
        hypothesis = yield Request()
        if session.must_flush:
            return Decision(write=hypothesis.num_new_tokens)

        if self.new_source and state and _same_transcript(state[-1], hypothesis):
            return Decision(write=0)

        state.append(_unwritten(hypothesis))
        del state[: -self.n]
        write = _agreed_tokens(state) if len(state) == self.n else 0
        state[:] = [tokens.after(write) for tokens in state]
        return Decision(write=write)


def _unwritten(hypothesis: Hypothesis) -> UnwrittenTokens:
    word_starts = hypothesis.word_starts[hypothesis.prefix_length :]
    return UnwrittenTokens(
        hypothesis.token_ids, word_starts, hypothesis.finished, hypothesis.transcript
    )


def _same_transcript(earlier: UnwrittenTokens, hypothesis: Hypothesis) -> bool:
    """Whether both were generated from the same transcript; False without transcripts."""
    return hypothesis.transcript is not None and hypothesis.transcript == earlier.transcript


def _agreed_tokens(hypotheses: list[UnwrittenTokens]) -> int:
    """Return the length of the longest common prefix that ends at a word boundary in each one."""
    columns = zip(*(tokens.token_ids.tolist() for tokens in hypotheses), strict=False)
    common = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    for length in range(common, 0, -1):
        if all(tokens.is_word_boundary(length) for tokens in hypotheses):
            return length
    return 0
