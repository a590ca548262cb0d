"""Re-translation: translate a window of audio anew at every chunk, and revise the output.

Niehues et al. (2016) and Arivazhagan et al. (2020), "Re-translation versus Streaming for
Simultaneous Translation"; the overlap of consecutive windows is found as in Sen et al. (2022),
"Simultaneous Translation for Unsegmented Input: A Sliding Window Approach" (arXiv:2210.09754), with
the settings of simulstream. The history is the window: ``sliding_window``, or ``voice_activity``.
"""

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import ClassVar

from zoo.base.errors import check_numbers
from zoo.base.types import Capability, Decision, Request, Samples
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session


@dataclass(slots=True)
class RetranslationState:
    """Output of one stream or segment that may still be revised.

    Attributes:
        window: Ids of the last emitted tokens, as many as the last translations had.
        begin: Position of the first sample of the first window; None before the first decision.
    """

    window: list[int] = field(default_factory=list)
    begin: Samples | None = None


@dataclass(kw_only=True, eq=False)
class Retranslate(Policy):
    """Join each translation to the output at the longest common sequence of tokens.

    The output after that sequence is deleted, and the rest of the translation is appended. The
    output before it is final. A translation without tokens changes nothing.

    Args:
        match_share: Least number of tokens of that sequence, as a share of the translation. Shorter
            ones are not used.
        override: Whether a translation without such a sequence replaces the last window. Otherwise
            it is appended, once audio has left the window.

    Raises:
        ZooError: ``match_share`` is not between 0 and 1.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})
    revises = True

    match_share: float = 0.1
    override: bool = False

    def __post_init__(self) -> None:
        check_numbers("Retranslate", least=0, most=1, match_share=self.match_share)

    def open(self) -> RetranslationState:
        """Return the state of a new stream or segment."""
        return RetranslationState()

    def decide(self, session: Session, state: RetranslationState) -> DecisionGenerator:
        """Request a translation of the window and join it to the output."""
        if state.begin is None:
            state.begin = session.audio_start
        hypothesis = yield Request()
        ids = hypothesis.token_ids.tolist()
        if not ids:
            return Decision(write=0)

        matcher = SequenceMatcher(None, state.window, ids, autojunk=False)
        match = matcher.find_longest_match()
        if match.size and match.size >= self.match_share * len(ids):
            before = state.window[max(match.a - match.b, 0) : match.a]
            delete = len(state.window) - (match.a + match.size)
            state.window = before + ids[match.b :]
            skip = match.b + match.size
            return Decision(write=len(ids) - skip, skip=skip, delete=delete)

        is_first_window = session.audio_start == state.begin
        delete = len(state.window) if is_first_window or self.override else 0
        state.window = ids
        return Decision(write=len(ids), delete=delete)
