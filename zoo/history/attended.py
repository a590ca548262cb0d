"""StreamAtt's selection of history (Papi et al., 2024, "StreamAtt"): text first, then the audio that text attends to.

A text rule (subclasses), an audio rule, a floor and caps. Knows no network.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from zoo.errors import ZooError
from zoo.history.base import History
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Capability, Cut, Frames, Hypothesis, Seconds

Moment = Literal["with_text", "always"]
Rows = Literal["kept", "hypothesis"]
MOMENTS = ("with_text", "always")
ROWS = ("kept", "hypothesis")


class Attended(History, ABC):
    """Keep some of the text and the audio from the first frame that one of its tokens attends to most.

    cut: audio is cut only ``with_text`` (FBK-fairseq, simulstream) or ``always``, after every look (the baseline of
    InfiniSST). rows: the tokens whose frames count, ``kept`` ones or, as in FBK-fairseq, also those of the
    ``hypothesis`` that wait to be written. min_seconds: a cut leaves at least this much audio (StreamAtt+: 10).
    max_seconds: more audio is cut at the front whatever the text. max_tokens: more text is, in whole words.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.ALIGNMENT, Capability.AUDIO_TRIMMING}
    )

    def __init__(
        self,
        *,
        cut: Moment,
        rows: Rows,
        min_seconds: Seconds,
        max_seconds: Seconds,
        max_tokens: int,
    ) -> None:
        """Raises ZooError for values that make no sense."""
        name = type(self).__name__
        if not 0 <= min_seconds < max_seconds:
            raise ZooError(
                f"{name} needs 0 <= min_seconds < max_seconds, not {min_seconds}, {max_seconds}."
            )
        if max_tokens < 1:
            raise ZooError(f"{name} needs max_tokens of at least 1, not {max_tokens}.")
        for option, value, known in (("cut", cut, MOMENTS), ("rows", rows, ROWS)):
            if value not in known:
                raise ZooError(f"{name} needs {option} to be {' or '.join(known)}, not {value}.")
        self.cut = cut
        self.rows = rows
        self.min_seconds = min_seconds
        self.max_seconds = max_seconds
        self.max_tokens = max_tokens

    @abstractmethod
    def first_kept(self, hypothesis: Hypothesis, written: int) -> int:
        """The text rule: index (0 to ``written``, all: keep none) of the first of the written tokens to keep.

        The rows of ``hypothesis`` begin with the written tokens.
        """

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Text rule, audio rule and floor, then the cap on audio."""
        cut = Cut() if hypothesis is None else self._attended(session, hypothesis)
        most = round(self.max_seconds * SAMPLE_RATE) // session.frame_samples
        return Cut(tokens=cut.tokens, frames=max(cut.frames, session.kept_frames - most))

    def _attended(self, session: Session, hypothesis: Hypothesis) -> Cut:
        written = session.prefix_ids.numel()
        first = self._capped(hypothesis, self.first_kept(hypothesis, written), written)
        if written == 0 or (first == 0 and self.cut == "with_text"):
            return Cut()
        least = -(-round(self.min_seconds * SAMPLE_RATE) // session.frame_samples)
        frames = min(self._first_frame(hypothesis, first, written), session.kept_frames - least)
        return Cut(tokens=first, frames=max(frames, 0))

    def _capped(self, hypothesis: Hypothesis, first: int, written: int) -> int:
        """``first``, or later where more than ``max_tokens`` would be kept: at a word, where there is one."""
        least = written - self.max_tokens
        if first >= least:
            return first
        begins = hypothesis.word_starts[least:written].nonzero()
        return least + int(begins[0]) if begins.numel() else least

    def _first_frame(self, hypothesis: Hypothesis, first: int, written: int) -> Frames:
        """The audio rule. Where no text is kept, only audio that was translated goes: up to the last frame that the
        text attended to, and not into what the rest of the hypothesis attends to."""
        attended = hypothesis.attended_frames
        counted = attended[first:] if self.rows == "hypothesis" else attended[first:written]
        if counted.numel():
            return int(counted.min())
        return min([int(attended[:written].max()) + 1, *attended[written:].tolist()])
