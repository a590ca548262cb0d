"""StreamAtt's history of a fixed number of words (Papi et al., 2024, "StreamAtt", FW). Knows no network."""

from typing import ClassVar

from zoo.errors import ZooError
from zoo.history.base import History
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Capability, Cut, Hypothesis, Seconds


class RecentWords(History):
    """Keep the last ``words`` written words and the audio from the first frame one of them attends to most.

    Audio goes only when text goes, or when more than ``max_seconds`` are kept. A word is what the backbone says begins
    one (``word_starts``): a character in languages without spaces.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.ALIGNMENT, Capability.RECUT})

    def __init__(self, *, words: int, max_seconds: Seconds = 28.8) -> None:
        """Raises ZooError when fewer than one word or no audio could be kept."""
        if words < 1 or max_seconds <= 0:
            raise ZooError(
                f"RecentWords needs words of at least 1 and max_seconds above 0, not {words}, {max_seconds}."
            )
        self.words = words
        self.max_seconds = max_seconds

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Text rule, audio rule, then the cap on audio."""
        cut = Cut()
        if hypothesis is not None and hypothesis.alignment is not None:
            cut = self._attended(session, hypothesis)
        most = round(self.max_seconds * SAMPLE_RATE) // session.frame_samples
        return Cut(tokens=cut.tokens, frames=max(cut.frames, session.kept_frames - most))

    def _attended(self, session: Session, hypothesis: Hypothesis) -> Cut:
        kept = session.prefix.numel()
        begins = hypothesis.word_starts[:kept].nonzero().flatten()
        if begins.numel() <= self.words:
            return Cut()
        first = int(begins[-self.words])
        return Cut(tokens=first, frames=int(hypothesis.attended[first:kept].min()))
